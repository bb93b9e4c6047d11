//! Verbs that need no running gateway: what they print, and how they end.

use std::{fs, path::Path, process::Command};

/// Runs a verb with a prefix; `(success, output and errors)`.
fn tidegate(prefix: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_tidegate"))
        .args(arguments)
        .arg("--prefix")
        .arg(prefix)
        .env_remove("NOTIFY_SOCKET")
        .output()
        .unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8(text).unwrap())
}

fn free_port() -> u16 {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn check(config: &str, resources: &str, arguments: &[&str], success: bool, parts: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let conf = folder.path().join("conf");
    fs::create_dir(&conf).unwrap();
    fs::write(conf.join("config.yaml"), config).unwrap();
    fs::write(conf.join("apisix.yaml"), resources).unwrap();
    let (ended_well, text) = tidegate(folder.path(), arguments);
    assert_eq!(ended_well, success, "{text}");
    for part in parts {
        assert!(text.contains(part), "{text:?} lacks {part:?}");
    }
}

const FROM_FILE: &str = "deployment: {role: data_plane, role_data_plane: {config_provider: yaml}}\n";

#[test]
fn configurations_are_tested() {
    // The default ports may be taken on this machine.
    let listen = format!("node_listen: {}, ssl: {{enable: false}}", free_port());
    let admin = format!("deployment: {{admin: {{admin_listen: {{port: {}}}}}}}", free_port());
    check(
        &format!("apisix: {{{listen}}}\n{admin}"),
        "",
        &["test"],
        true,
        &["configuration test is successful"],
    );
    check(
        &format!("apisix: {{node_listn: 1, {listen}}}\n{admin}"),
        "",
        &["test"],
        true,
        &["config.yaml:1:10: unknown key", "did you mean node_listen?"],
    );
    check(
        "apisix: {enable_ipv6: 7}",
        "",
        &["test"],
        false,
        &["config.yaml:1:23: apisix.enable_ipv6 should be true or false"],
    );
    let from_file = format!("{FROM_FILE}apisix: {{{listen}}}\n");
    check(&from_file, "routes: [{uri: /a, plugins: {}}]\n#END", &["test"], true, &["is valid: 1 object\n"]);
    check(&from_file, "routes: [5]\n#END", &["test"], false, &["[routes/1]"]);
    check(&from_file, "routes: []\n", &["test"], false, &["missing valid end flag"]);
}

#[test]
fn testing_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("conf")).unwrap();
    // Whether the default ports are free on this machine makes no difference to this.
    let (_, text) = tidegate(folder.path(), &["test"]);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "{text}");
    assert_eq!(fs::read_dir(folder.path().join("conf")).unwrap().count(), 0);
}

#[test]
fn nothing_to_signal() {
    for verb in ["stop", "quit", "reload"] {
        check("", "", &[verb], false, &["not running"]);
    }
    check("apisix: [", "", &["stop"], false, &["not running"]);
    check("apisix: [", "", &["reload"], false, &["config.yaml:1:"]);
    check(
        "apisix: {control: {port: 1}}",
        "",
        &["routes"],
        false,
        &["cannot reach the Control API at 127.0.0.1:1"],
    );
    let unreachable =
        "cannot reach the Control API at 127.0.0.1:1; is the gateway running? start it, or give --prefix";
    check("apisix: {control: {port: 1}}", "", &["health"], false, &[unreachable]);
    check("apisix: {status: {port: 1}}", "", &["health"], false, &["the status page at 127.0.0.1:1"]);
    check("apisix: {enable_control: false}", "", &["health"], false, &["there is nothing to ask"]);
    check("apisix: {enable_control: false}", "", &["routes"], false, &["apisix.enable_control"]);
}

#[test]
fn a_start_that_fails_says_why() {
    check("apisix: {enable_ipv6: 7}", "", &["start"], false, &["apisix.enable_ipv6"]);
}
