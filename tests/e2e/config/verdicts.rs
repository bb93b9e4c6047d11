//! `tidegate test` and `tidegate run` come to the same verdict, and name the same cause.

mod cases;
mod files;
mod words;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Instant;

use serde_json::json;
use tidegate_testkit::gateway::{Gateway, binary};
use tidegate_testkit::process::Process;
use tidegate_testkit::{PATIENCE, free_port};

use self::cases::{Case, Verdict};
use crate::config::config_keys::standalone;

/// Starts, refused, leaves objects out.
const CODES: [i32; 3] = [0, 1, 2];

fn tidegate(verb: &str, prefix: &Path, case: &Case) -> Command {
    let mut command = Command::new(binary());
    command.arg(verb).arg("--prefix").arg(prefix);
    if let Some(file) = case.file {
        command.arg("--config").arg(prefix.join(file));
    }
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&[output.stdout.as_slice(), &output.stderr].concat()).into_owned()
}

fn write(prefix: &Path, name: &str, text: &str) {
    let path = prefix.join(name);
    fs::create_dir_all(path.parent().expect("a folder above")).expect("a folder");
    fs::write(path, text).expect("a file");
}

fn check(case: &Case) {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path();
    let http = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let fill = |text: &str| {
        ["@ADMIN@", "@CONTROL@", "@METRICS@"]
            .iter()
            .fold(text.replace("@HTTP@", &http.port().to_string()), |text, name| {
                text.replace(name, &free_port().to_string())
            })
            .replace("@PREFIX@", &prefix.display().to_string())
    };
    write(prefix, "conf/config.yaml", &fill(&case.config));
    for (name, text) in &case.files {
        write(prefix, name, &fill(text));
    }
    let before = listing(prefix);
    let tested = tidegate("test", prefix, case).output().expect("tidegate runs");
    let said = text(&tested);
    assert_eq!(listing(prefix), before, "{}: the test left files behind", case.name);
    let mut process = Process::start("tidegate", &mut tidegate("run", prefix, case));
    let code = tested.status.code();
    let [starts, refused, leaves_out] = CODES.map(Some);
    match &case.verdict {
        Verdict::Starts => {
            assert_eq!(code, starts, "{}: {said}", case.name);
            process.wait_for_port(http);
        }
        Verdict::Warns(cause) => {
            assert!(code == starts && said.contains(cause), "{}: {code:?} {said}", case.name);
            process.wait_for_port(http);
            process.wait_for_output(cause);
        }
        Verdict::Refused(cause) => {
            assert!(code == refused && said.contains(cause), "{}: {code:?} {said}", case.name);
            process.wait_for_output(cause);
            assert!(!process.wait_for_exit().success(), "{}", case.name);
        }
        Verdict::LeavesOut(cause) => {
            assert!(code == leaves_out && said.contains(cause), "{}: {code:?} {said}", case.name);
            process.wait_for_port(http);
            let log = || fs::read_to_string(prefix.join("logs/error.log")).unwrap_or_default();
            let deadline = Instant::now() + PATIENCE;
            while !log().contains(cause) {
                assert!(Instant::now() < deadline, "{}: {}{}", case.name, log(), process.output());
                std::thread::yield_now();
            }
        }
    }
}

/// All files below a folder.
fn listing(folder: &Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path().is_dir() {
            true => names.extend(listing(&entry.path())),
            false => names.push(entry.path().display().to_string()),
        }
    }
    names.sort();
    names
}

#[test]
fn configurations_that_work() {
    cases::good().iter().for_each(check);
}

#[test]
fn files_that_are_wrong() {
    cases::wrong_files().iter().for_each(check);
}

#[test]
fn certificates_and_stores_that_cannot_be_used() {
    cases::unusable().iter().for_each(check);
}

#[test]
fn ports_that_cannot_be_had() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    cases::ports(taken.local_addr().expect("an address").port()).iter().for_each(check);
}

#[test]
fn objects_that_are_left_out() {
    cases::left_out().iter().for_each(check);
}

#[test]
fn the_table_is_long_enough() {
    let lists = [cases::good(), cases::wrong_files(), cases::unusable(), cases::ports(1), cases::left_out()];
    let count: usize = lists.iter().map(Vec::len).sum();
    assert!(count >= 60, "{count} configurations");
}

#[test]
fn a_running_gateway_does_not_stand_in_its_own_way() {
    let gateway = Gateway::start(&standalone(&[]), Some("routes: []\n"));
    let (works, said) = gateway.verb("test");
    assert!(works, "{said}");
    let pid = gateway.pid().expect("a pid");
    assert!(said.contains(&format!("process {pid} serves from this prefix")), "{said}");
    assert!(
        said.contains(&gateway.http.to_string()) && said.contains(&gateway.metrics.to_string()),
        "{said}"
    );
    assert_eq!(gateway.client().get("h", "/").expect("an answer").status(), 404, "it serves on");
    // Somebody else's port is another matter.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let file = gateway.prefix().join("conf/config.yaml");
    let config = fs::read_to_string(&file).expect("config.yaml");
    fs::write(&file, config.replace(&gateway.http.port().to_string(), &port.to_string())).expect("written");
    let (works, said) = gateway.verb("test");
    assert!(!works && said.contains(&format!("cannot listen on 127.0.0.1:{port}")), "{said}");
}

#[test]
fn a_running_gateway_keeps_its_store() {
    let config = crate::config::config_keys::embedded(&[]);
    let gateway = Gateway::start(&config, None);
    let (works, said) = gateway.verb("test");
    assert!(works && said.contains("its store was left alone"), "{said}");
}

#[test]
fn a_folder_that_is_not_there_is_refused() {
    for verb in ["test", "run"] {
        let output = Command::new(binary()).args([verb, "--prefix", "/nonexistent/tidegate"]).output();
        let output = output.expect("tidegate runs");
        assert!(!output.status.success(), "{verb}: {}", text(&output));
        assert!(text(&output).contains("/nonexistent/tidegate"), "{verb}: {}", text(&output));
    }
}

/// That everybody can run. Another process writes it: while this one has it open, a child of another test may inherit the
/// descriptor, and nobody can run the file.
fn copy_of_binary(folder: &Path) -> PathBuf {
    let program = folder.join("tidegate");
    let copied = Command::new("cp").arg(binary()).arg(&program).status().expect("cp runs");
    assert!(copied.success());
    program
}

/// As root every port is open: the verdict of a user is asked for.
#[test]
fn low_ports_need_a_capability() {
    let first = fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start").unwrap_or_default();
    let first = first.trim().parse::<u16>().unwrap_or(1024);
    if !rustix::process::geteuid().is_root()
        || first <= 80
        || !tidegate_testkit::servers::installed("setpriv")
    {
        eprintln!("skipped: needs root, setpriv, and ports that only root may open");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = copy_of_binary(folder.path());
    let set = [
        ("apisix.node_listen", json!([{"ip": "127.0.0.1", "port": 80}])),
        // The default zone lies in a folder that other users may have made.
        ("apisix.proxy_cache.zones", json!([{"name": "memory", "memory_size": "1m"}])),
    ];
    let config = ["@CONTROL@", "@METRICS@"]
        .iter()
        .fold(standalone(&set), |text, name| text.replace(name, &free_port().to_string()));
    write(folder.path(), "conf/config.yaml", &config);
    write(folder.path(), "conf/apisix.yaml", "routes: []\n#END\n");
    let chown = Command::new("chown").args(["-R", "65534"]).arg(folder.path()).status();
    assert!(chown.expect("chown runs").success());
    for verb in ["test", "run"] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]);
        let output =
            command.arg(&program).args([verb, "--prefix"]).arg(folder.path()).output().expect("runs");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{verb}: {said}");
        assert!(said.contains("127.0.0.1:80") && said.contains("CAP_NET_BIND_SERVICE"), "{verb}: {said}");
    }
}
