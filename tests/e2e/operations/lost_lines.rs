//! Lines of the access log that the disk refuses: they are counted and told of, and leave no half line between others.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER, binary};
use tidegate_testkit::{Client, PATIENCE};

use crate::operations::full_disk::{has_own_mounts, with_small_disk};

const ROUTES: &str = "routes:\n- {id: 1, uri: /, plugins: {mocking: {response_example: x}}}\n";

fn config(path: &str) -> String {
    let log =
        format!("access_log: {path}, access_log_format: \"BEGIN $request_uri END\", access_log_buffer: 4096");
    YAML_PROVIDER.replace("enable_access_log: false", &log)
}

/// Requests with a line of some 200 bytes each.
fn ask(gateway: &Gateway, count: usize) {
    let mut client = gateway.client();
    let request = format!("GET /?{} HTTP/1.1\r\nHost: h\r\n\r\n", "y".repeat(190));
    for _ in 0..count / 50 {
        client.send(request.repeat(50).as_bytes()).expect("sends");
        for _ in 0..50 {
            assert_eq!(client.response().expect("an answer").status(), 200);
        }
    }
}

fn lost(gateway: &Gateway) -> u64 {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let name = "apisix_log_lines_lost_total{log=\"access\",reason=\"failed\"} ";
    let line = page.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("{page}"));
    line.parse().expect("a number")
}

/// Waits until each of so many lines is in the file, or counted as lost; returns both numbers.
fn all_accounted_for(gateway: &Gateway, log: &Path, asked: usize) -> (usize, usize) {
    let begun = Instant::now();
    loop {
        let written = fs::read_to_string(log).unwrap_or_default().matches(" END\n").count();
        let lost = lost(gateway) as usize;
        if written + lost >= asked {
            return (written, lost);
        }
        assert!(begun.elapsed() < PATIENCE, "{written} written and {lost} lost of {asked}");
    }
}

#[test]
fn a_limit_on_the_size_of_files_loses_no_line_in_silence() {
    let mut gateway = Gateway::start_by(&config("logs/access.log"), Some(ROUTES), |prefix| {
        let mut command = Command::new("sh");
        // In blocks of 512 bytes: 256 KB.
        command.args(["-c", "ulimit -f 512 && exec \"$0\" run --prefix \"$1\""]).arg(binary()).arg(prefix);
        command
    });
    gateway.process.wait_for_port(gateway.http);
    let log = gateway.prefix().join("logs/access.log");
    let begun = Instant::now();
    ask(&gateway, 3_000);
    let (written, lost) = all_accounted_for(&gateway, &log, 3_000);
    assert_eq!(written + lost, 3_000);
    assert!(lost > 1_000, "{written} written, {lost} lost");
    gateway.wait_for_log("access.log were lost: File too large");
    let told = gateway.error_log().matches(" were lost: ").count() as u64;
    assert!(told <= 1 + begun.elapsed().as_secs() / 10, "a line in ten seconds: {}", gateway.error_log());
}

#[test]
fn a_disk_that_was_full_leaves_no_half_line() {
    if !has_own_mounts() {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let mut gateway = Gateway::start_by(&config("data/access.log"), Some(ROUTES), with_small_disk);
    gateway.process.wait_for_port(gateway.http);
    let inside = format!("/proc/{}/root/{}/data", gateway.process.id(), gateway.prefix().display());
    let folder = File::open(inside).expect("the gateway's folder");
    let data = format!("/proc/self/fd/{}", folder.as_raw_fd());
    let (log, filler) = (Path::new(&data).join("access.log"), Path::new(&data).join("filler"));
    ask(&gateway, 500);
    let mut file = File::create(&filler).expect("a file");
    while file.write_all(&[1; 4096]).is_ok() {}
    ask(&gateway, 500);
    let begun = Instant::now();
    while lost(&gateway) == 0 {
        ask(&gateway, 50);
        assert!(begun.elapsed() < PATIENCE, "the disk never filled");
    }
    gateway.wait_for_log("access.log were lost: No space left on device");
    drop(file);
    fs::remove_file(&filler).expect("removed");
    ask(&gateway, 500);
    let begun = Instant::now();
    while fs::read_to_string(&log).unwrap_or_default().lines().count() < 900 {
        assert!(begun.elapsed() < PATIENCE, "nothing is written again");
    }
    let text = fs::read_to_string(&log).expect("the log");
    let whole = |line: &&str| {
        line.starts_with("BEGIN /?") && line.ends_with(" END") && line.matches("BEGIN").count() == 1
    };
    let broken: Vec<&str> = text.lines().filter(|line| !whole(line)).collect();
    assert!(broken.is_empty(), "{broken:?}");
}
