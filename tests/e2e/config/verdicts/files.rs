//! Files and addresses that stand in the way: both verbs name the key, its place and the remedy.

use std::{
    fs,
    io::{Read, Write},
    net::TcpListener,
    os::unix::fs::symlink,
    path::Path,
    process::Command,
    thread,
};

use serde_json::{Value, json};
use tidegate_testkit::{free_port, gateway::binary, process::Process};

use super::{text, write};
use crate::config::config_keys::{embedded, standalone};

fn filled(config: &str) -> String {
    let names = ["@HTTP@", "@ADMIN@", "@CONTROL@", "@METRICS@"];
    names.iter().fold(config.to_owned(), |text, name| text.replace(name, &free_port().to_string()))
}

/// Both verbs end like this in the folder that `make` prepares.
fn refused(config: &str, make: impl Fn(&Path), causes: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "conf/config.yaml", &filled(config));
    write(folder.path(), "conf/apisix.yaml", "routes: []\n#END\n");
    make(folder.path());
    for verb in ["test", "run"] {
        let output =
            Command::new(binary()).args([verb, "--prefix"]).arg(folder.path()).output().expect("runs");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{verb}: {causes:?}: {said}");
        for cause in causes {
            assert!(said.contains(cause), "{verb}: {cause}: {said}");
        }
        assert!(!said.contains("tidegate-test-"), "{verb}: {said}");
    }
}

/// Both verbs warn of this in the folder that `make` prepares, and the gateway serves.
fn warned(config: &str, make: impl Fn(&Path), cause: &str) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "conf/config.yaml", &filled(config));
    make(folder.path());
    let output = Command::new(binary()).args(["test", "--prefix"]).arg(folder.path()).output().expect("runs");
    let said = text(&output);
    assert!(output.status.success() && said.contains(cause), "{cause}: {said}");
    let process =
        Process::start("tidegate", Command::new(binary()).args(["run", "--prefix"]).arg(folder.path()));
    process.wait_for_output(cause);
    process.wait_for_output("  proxy  ");
}

#[test]
fn a_store_needs_a_folder() {
    let config = embedded(&[]);
    let link = |prefix: &Path| symlink("/nonexistent/x", prefix.join("data")).expect("a link");
    refused(&config, link, &["there is no place for the store", "data is not a folder"]);
    refused(&config, |prefix| write(prefix, "data", "a file"), &["data is not a folder"]);
}

/// Root may write everywhere: the verdict of a user is asked for.
#[test]
fn a_store_needs_a_folder_that_its_user_may_write() {
    if !rustix::process::geteuid().is_root() || !tidegate_testkit::servers::installed("setpriv") {
        eprintln!("skipped: needs root and setpriv");
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let program = super::copy_of_binary(folder.path());
    write(folder.path(), "conf/config.yaml", &filled(&embedded(&[])));
    let chown = Command::new("chown").args(["-R", "65534"]).arg(folder.path()).status();
    assert!(chown.expect("chown runs").success());
    fs::create_dir(folder.path().join("data")).expect("a folder of root's");
    for verb in ["test", "run"] {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups", "--bounding-set=-all", "--inh-caps=-all"]);
        let output =
            command.arg(&program).args([verb, "--prefix"]).arg(folder.path()).output().expect("runs");
        let said = text(&output);
        assert_eq!(output.status.code(), Some(1), "{verb}: {said}");
        assert!(said.contains("there is no place for the store"), "{verb}: {said}");
    }
}

#[test]
fn a_log_is_no_folder() {
    for (key, name) in [
        ("nginx_config.error_log", "logs/e"),
        ("nginx_config.http.access_log", "logs/a"),
        ("deployment.admin.audit_log", "logs/u"),
    ] {
        let config = embedded(&[(key, json!(name))]);
        let make = |prefix: &Path| fs::create_dir_all(prefix.join(name)).expect("a folder");
        let cause = format!("{key}: cannot open log file");
        refused(&config, make, &[&cause, "Is a directory", "config.yaml:1:"]);
    }
}

/// To root its folder looks as one that can be written.
#[test]
fn a_log_needs_a_folder_that_takes_files() {
    for key in ["nginx_config.error_log", "nginx_config.http.access_log", "deployment.admin.audit_log"] {
        let cause = format!("{key}: cannot open log file ");
        refused(&embedded(&[(key, json!("/proc/x"))]), |_| {}, &[&cause, "/proc/x", "config.yaml:1:"]);
    }
}

#[test]
fn key_files_that_cannot_be_used_are_warned_of() {
    let config = embedded(&[("deployment.admin.admin_key", json!([{"name": "a"}]))]);
    for content in [b"".as_slice(), b" \n", b"short\n", b"\xff\xfe"] {
        let make = |prefix: &Path| {
            write(prefix, "data/admin.key", "");
            fs::write(prefix.join("data/admin.key"), content).expect("written");
        };
        warned(&config, make, "cannot read the admin key in");
    }
    let folder = |prefix: &Path| fs::create_dir_all(prefix.join("data/admin.key")).expect("a folder");
    warned(&config, folder, "cannot read the admin key in");
    let socket = |prefix: &Path| fs::create_dir_all(prefix.join("logs/tidegate.sock")).expect("a folder");
    warned(&config, socket, "tidegate.sock is a folder");
}

#[test]
fn taken_ports_name_their_key_and_its_line() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let here = json!({"ip": "127.0.0.1", "port": taken.local_addr().expect("an address").port()});
    for (key, value) in [("apisix.node_listen", json!([here])), ("apisix.ssl", json!({"listen": [here]}))] {
        let named = if key == "apisix.ssl" { "(apisix.ssl.listen)" } else { "(apisix.node_listen)" };
        refused(&standalone(&[(key, value)]), |_| {}, &["config.yaml:1:", "cannot listen on", named]);
    }
}

#[test]
fn variables_that_are_not_set_have_a_line() {
    let routes =
        |prefix: &Path| write(prefix, "conf/apisix.yaml", "routes:\n- uri: /${{TIDEGATE_NO_SUCH}}\n#END\n");
    refused(&standalone(&[]), routes, &["apisix.yaml:2:9", "TIDEGATE_NO_SUCH"]);
}

#[test]
fn registries_that_cannot_be_used_have_a_line() {
    let kubernetes =
        json!({"service": {"host": "127.0.0.1", "port": "443"}, "client": {"token": "${TIDEGATE_NO_SUCH}"}});
    let config = standalone(&[("discovery.kubernetes", kubernetes)]);
    refused(
        &config,
        |_| {},
        &["config.yaml:1:", "discovery.kubernetes: environment variable TIDEGATE_NO_SUCH"],
    );
}

#[test]
fn an_etcd_that_is_none_is_told_of() {
    let server = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = server.local_addr().expect("an address").port();
    thread::spawn(move || {
        for stream in server.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 1024]);
            let _ = stream
                .write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    let etcd = |port: u16| -> String {
        let set: [(&str, Value); 4] = [
            ("deployment.role_traditional.config_provider", json!("etcd")),
            ("deployment.etcd.host", json!([format!("http://127.0.0.1:{port}")])),
            ("deployment.etcd.startup_retry", json!(1)),
            ("deployment.etcd.timeout", json!(2)),
        ];
        embedded(&set)
    };
    refused(&etcd(port), |_| {}, &["it does not respond like etcd", "config.yaml:1:", "data/etcd.snapshot"]);
    refused(&etcd(1), |_| {}, &["config.yaml:1:", "data/etcd.snapshot"]);
}

#[test]
fn a_file_that_is_not_there_is_not_called_good() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::create_dir(folder.path().join("conf")).expect("a folder");
    let output = Command::new(binary())
        .args(["test", "--listen", "127.0.0.1:1", "--prefix"])
        .arg(folder.path())
        .output()
        .expect("runs");
    let said = text(&output);
    assert!(!said.contains("config.yaml is valid"), "{said}");
    // As each start says.
    let warned =
        "warning: @/conf/config.yaml does not exist: the defaults take effect; `tidegate init` writes one";
    assert!(said.contains(&warned.replace('@', &folder.path().display().to_string())), "{said}");
    assert!(
        !output.status.success() || said.contains("config.yaml does not exist; the defaults apply"),
        "{said}"
    );
}
