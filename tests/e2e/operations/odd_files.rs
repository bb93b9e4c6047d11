//! Files that are not what they should be, are gone, or have no room.

use std::fs;
use std::path::Path;
use std::process::Command;

use tidegate_testkit::eventually;
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER, binary};

use super::full_disk::has_own_mounts;

const BEFORE: &str =
    "routes:\n- {id: a, uri: /a, plugins: {mocking: {response_example: x, response_status: 201}}}\n#END\n";
const AFTER: &str =
    "routes:\n- {id: a, uri: /a, plugins: {mocking: {response_example: x, response_status: 202}}}\n#END\n";

fn make_pipe(path: &Path) {
    let made = Command::new("mkfifo").arg(path).status().expect("mkfifo runs");
    assert!(made.success());
}

/// Opening a pipe would wait for its writer, and the thread that reads the file with it.
#[test]
fn a_pipe_in_the_place_of_the_file_stops_nothing() {
    let gateway = Gateway::start(YAML_PROVIDER, Some(BEFORE));
    let status = || gateway.client().get("h", "/a").expect("an answer").status();
    let file = gateway.prefix().join("conf/apisix.yaml");
    let aside = gateway.prefix().join("conf/pipe");
    make_pipe(&aside);
    fs::rename(&aside, &file).expect("renamed");
    gateway.wait_for_log("it is not a regular file");
    assert_eq!(status(), 201);
    let (done, said) = gateway.verb("reload");
    assert!(!done && said.contains("it is not a regular file"), "{said}");
    let (done, said) = gateway.verb("test");
    assert!(!done && said.contains("it is not a regular file"), "{said}");
    fs::remove_file(&file).expect("removed");
    gateway.write_routes(AFTER);
    eventually("the new file counts", || status() == 202);
}

/// Nobody writes into it: as good as an empty file.
#[test]
fn a_pipe_in_the_place_of_the_settings_is_refused() {
    let gateway = Gateway::start(EMBEDDED, None);
    let file = gateway.prefix().join("conf/config.yaml");
    fs::remove_file(&file).expect("removed");
    make_pipe(&file);
    let (done, said) = gateway.verb("reload");
    assert!(!done && said.contains("config.yaml"), "{said}");
}

#[test]
fn a_lost_pid_file_does_not_hide_the_process() {
    let gateway = Gateway::start(EMBEDDED, None);
    let pid = gateway.pid().expect("a pid");
    fs::remove_file(gateway.prefix().join("logs/tidegate.pid")).expect("removed");
    let (done, said) = gateway.verb("stop");
    assert!(!done && said.contains(&format!("process {pid} has ")), "{said}");
    assert!(said.contains(&format!("`kill -TERM {pid}` ends it")), "{said}");
    let (done, said) = gateway.verb("start");
    assert!(!done && said.contains(&format!("in use by another process, {pid};")), "{said}");
}

#[test]
fn the_doctor_sees_a_full_disk() {
    if !has_own_mounts() {
        eprintln!("skipped: this user may not mount");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["conf", "logs", "data"] {
        fs::create_dir(folder.path().join(name)).expect("made");
    }
    let doctor = |fill: &str| {
        let script = format!(
            "mount -t tmpfs -o size=6m tmpfs \"$1/logs\" && {fill}; \"$0\" doctor --prefix \"$1\"; true"
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).arg(binary()).arg(folder.path());
        String::from_utf8(command.output().expect("it runs").stdout).expect("a text")
    };
    let said = doctor("true");
    assert!(!said.contains("BAD disk") && said.contains("MiB are free at "), "{said}");
    let said = doctor("head -c 6m /dev/zero > \"$1/logs/fill\"");
    assert!(said.contains("only 0 MiB are free at ") && said.contains("/logs"), "{said}");
}

#[test]
fn names_of_checkpoints_are_one_part_of_a_path() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (name, reason) in [
        ("", "a checkpoint needs a name"),
        ("a b", "invalid checkpoint name"),
        ("a/b", "cannot contain a slash"),
    ] {
        let (done, said) = gateway.verb_with(&["config", "checkpoint", name]);
        assert!(!done && said.contains(reason), "{name}: {said}");
    }
}

/// Its own ports are those of a successor, of UDP too.
#[test]
fn a_test_beside_the_gateway_knows_its_ports_of_udp() {
    let port = std::net::UdpSocket::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port")
        .port();
    let streams =
        format!("apisix:\n  proxy_mode: http&stream\n  stream_proxy: {{udp: [\"127.0.0.1:{port}\"]}}\n");
    let gateway = Gateway::start(&EMBEDDED.replacen("apisix:\n", &streams, 1), None);
    let (done, said) = gateway.verb("test");
    assert!(done && said.contains(&format!("127.0.0.1:{port}")), "{said}");
    let (_, said) = gateway.verb("doctor");
    assert!(!said.contains("cannot listen on"), "{said}");
}
