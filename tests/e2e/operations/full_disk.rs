//! A disk that is full stops writes for as long as it is full, and loses nothing that was acknowledged.
//!
//! `data/` lies on a file system of its own, in a mount namespace of the gateway. `TIDEGATE_FULL_DISKS=20` fills it that
//! often.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::{EMBEDDED, Gateway, binary};
use tidegate_testkit::{PATIENCE, eventually};

const ROUNDS: usize = 2;
/// Some attempts of the gateway to open its file again.
const LONG_ENOUGH: Duration = Duration::from_millis(700);

pub(crate) fn with_small_disk(prefix: &Path) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs -o size=6m tmpfs \"$1/data\" && exec \"$0\" run --prefix \"$1\"");
    command.arg(binary()).arg(prefix);
    command
}

pub(crate) fn has_own_mounts() -> bool {
    let mut command = Command::new("unshare");
    command.args(["--map-root-user", "--mount", "sh", "-c", "mount -t tmpfs tmpfs /mnt"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// A route of some 20 KB.
fn put(gateway: &Gateway, number: usize) -> (u16, String) {
    let text = "z".repeat(20_000);
    let route = format!(r#"{{"uri":"/x{number}","plugins":{{"mocking":{{"response_example":"{text}"}}}}}}"#);
    gateway.admin("PUT", &format!("/apisix/admin/routes/{number}"), &route)
}

/// What `ulimit -f` forbids is refused like what does not fit, and ends nothing.
#[test]
fn a_limit_on_the_size_of_files_ends_no_process() {
    let mut gateway = Gateway::start_by(EMBEDDED, None, |prefix| {
        let mut command = Command::new("sh");
        // In blocks of 512 bytes: 4 MB.
        command.args(["-c", "ulimit -f 8192 && exec \"$0\" run --prefix \"$1\""]).arg(binary()).arg(prefix);
        command
    });
    gateway.process.wait_for_port(gateway.http);
    let (status, answer) =
        (0..1000).map(|number| put(&gateway, number)).find(|(status, _)| *status != 201).expect("a limit");
    assert_eq!(status, 503, "{answer}");
    let answer = gateway.client().get("h", "/x0").expect("an answer");
    assert_eq!(answer.status(), 200);
    assert!(gateway.process.ended().is_none(), "it runs on");
}

/// Whoever is deleted is out, even where that cannot be written.
#[test]
fn a_user_who_cannot_be_deleted_is_signed_out() {
    if !has_own_mounts() {
        return;
    }
    let mut gateway = Gateway::start_by(EMBEDDED, None, with_small_disk);
    gateway.process.wait_for_port(gateway.http);
    super::sessions::add_user(&gateway, "jo", "viewer");
    let session = super::sessions::Session::of_user(&gateway, "jo");
    let full = (0..1000).map(|number| put(&gateway, number)).find(|(status, _)| *status == 503);
    assert!(full.is_some(), "the disk is full");
    assert_eq!(session.send("GET", "/routes/0", "").status(), 200);
    let (status, answer) = gateway.admin("DELETE", "/apisix/admin/users/jo", "");
    assert_eq!(status, 503, "{answer}");
    assert_eq!(session.send("GET", "/routes/0", "").status(), 401);
}

/// A backup goes to another disk, and needs no room on that of the store.
#[test]
fn a_full_disk_can_be_backed_up() {
    if !has_own_mounts() {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let mut gateway = Gateway::start_by(EMBEDDED, None, with_small_disk);
    gateway.process.wait_for_port(gateway.http);
    super::sessions::add_user(&gateway, "jo", "viewer");
    let full = (0..1000).map(|number| put(&gateway, number)).find(|(status, _)| *status == 503);
    assert!(full.is_some(), "the disk is full");
    let file = gateway.prefix().join("backup");
    let (done, text) = gateway.verb_with(&["config", "backup", &file.display().to_string()]);
    assert!(done && text.contains("objects and 1 user"), "{text}");
    let mut other = Gateway::start(EMBEDDED, None);
    other.process.stop();
    let (done, text) = other.verb_with(&["config", "restore", &file.display().to_string()]);
    assert!(done, "{text}");
    other.restart();
    let export = |gateway: &Gateway| gateway.admin("GET", "/apisix/admin/export", "").1;
    assert!(export(&other) == export(&gateway), "another state");
}

#[test]
fn writes_work_again_within_a_second() {
    if !has_own_mounts() {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let mut gateway = Gateway::start_by(EMBEDDED, None, with_small_disk);
    gateway.process.wait_for_port(gateway.http);
    // The folder as the gateway sees it, also when it has ended: an open folder keeps its file system.
    let inside = format!("/proc/{}/root/{}/data", gateway.process.id(), gateway.prefix().display());
    let folder = File::open(inside).expect("the gateway's folder");
    let data = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&folder));
    let data = Path::new(&data);
    let rounds = std::env::var("TIDEGATE_FULL_DISKS").map_or(ROUNDS, |text| text.parse().expect("a number"));
    assert_eq!(put(&gateway, 0).0, 201);
    let (mut acknowledged, mut slowest) = (1, Duration::ZERO);
    for round in 0..rounds {
        let filler = data.join("filler");
        let mut file = File::create(&filler).expect("a file");
        while file.write_all(&[1; 4096]).is_ok() {}
        let full = Instant::now();
        let refused = loop {
            let (code, answer) = put(&gateway, acknowledged);
            if code >= 400 {
                assert_eq!(code, 503, "{answer}");
                break answer;
            }
            acknowledged += 1;
            assert!(full.elapsed() < PATIENCE, "the disk never filled");
        };
        assert!(refused.contains("tidegate.redb") && refused.contains("free space"), "{refused}");
        // Attempts go on while it is full, and requests are served. A small gap may be found meanwhile.
        let since = Instant::now();
        while since.elapsed() < LONG_ENOUGH {
            let (code, answer) = put(&gateway, acknowledged);
            assert!(code < 400 || code == 503, "{code} {answer}");
            acknowledged += usize::from(code < 400);
            let path = format!("/x{}", acknowledged.saturating_sub(1));
            assert_eq!(gateway.client().get("h", &path).expect("an answer").status(), 200, "round {round}");
            while file.write_all(&[1; 4096]).is_ok() {}
        }
        assert_eq!(put(&gateway, acknowledged).0, 503);
        drop(file);
        fs::remove_file(&filler).expect("removed");
        let free = Instant::now();
        eventually("it can be written again", || put(&gateway, acknowledged).0 < 400);
        slowest = slowest.max(free.elapsed());
        acknowledged += 1;
        // So that the next round has room.
        for number in 0..acknowledged.saturating_sub(3) {
            let _ = gateway.admin("DELETE", &format!("/apisix/admin/routes/{number}"), "");
        }
    }
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    gateway.wait_for_log("can be written to again");
    let export = |gateway: &Gateway| gateway.admin("GET", "/apisix/admin/export", "").1;
    let before = export(&gateway);
    gateway.process.signal_kill();
    gateway.process.wait_for_exit();
    // What is on the disk is what was acknowledged.
    for name in ["tidegate.redb", "tidegate.created"] {
        fs::copy(data.join(name), gateway.prefix().join("data").join(name)).expect("copied");
    }
    gateway.restart();
    assert!(export(&gateway) == before, "another state");
    for number in acknowledged - 3..acknowledged {
        assert_eq!(gateway.admin("GET", &format!("/apisix/admin/routes/{number}"), "").0, 200, "{number}");
    }
    println!("{rounds} times full, written to again after {slowest:?} at most");
}

/// The process in the background can write nothing of why it ends, either.
#[test]
fn a_start_on_a_full_disk_says_so() {
    if !has_own_mounts() {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.stop();
    let mut command = Command::new("unshare");
    let script = "mkdir \"$1/full\" && mount -t tmpfs -o size=256k tmpfs \"$1/full\" && cp -r \"$1/conf\" \"$1/full\" && mkdir \"$1/full/logs\" && \
                  { dd if=/dev/zero of=\"$1/full/fill\" bs=4k 2>/dev/null; exec \"$0\" start --prefix \"$1/full\"; }";
    command.args(["--map-root-user", "--mount", "sh", "-c", script]).arg(binary()).arg(gateway.prefix());
    let output = command.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{said}");
    assert!(
        said.contains("disk is probably full; make room") || said.contains("No space left on device"),
        "{said}"
    );
}
