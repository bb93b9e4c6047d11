//! Where the gateway cannot say what it wants to say: it serves nevertheless.

use std::{fs::OpenOptions, process::Command};

use tidegate_testkit::{Gateway, client::Client, free_port, gateway::binary};

/// Standard output and error on a full disk.
#[test]
fn a_greeting_that_cannot_be_written_is_left_out() {
    let prefix = tempfile::tempdir().expect("a folder");
    let init = Command::new(binary()).args(["init", "--standalone", "--prefix"]).arg(prefix.path()).output();
    assert!(init.expect("the binary runs").status.success());
    let full = || OpenOptions::new().write(true).open("/dev/full").expect("a full device");
    let port = free_port();
    let mut command = Command::new(binary());
    command.arg("run").arg("--prefix").arg(prefix.path()).args(["--listen", &format!("127.0.0.1:{port}")]);
    let mut child = command.stdout(full()).stderr(full()).spawn().expect("the binary runs");
    let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
    let deadline = std::time::Instant::now() + tidegate_testkit::PATIENCE;
    let served = loop {
        if let Some(answer) = Client::connect(address).ok().and_then(|mut client| client.get("h", "/").ok()) {
            break answer.status();
        }
        let ended = child.try_wait().expect("its status");
        assert!(ended.is_none() && std::time::Instant::now() < deadline, "it ended: {ended:?}");
    };
    assert!(matches!(served, 200 | 404), "{served}");
    child.kill().expect("killed");
    child.wait().expect("its status");
}

/// A pipe that nobody reads is not a file to wait for.
#[test]
fn a_log_may_be_a_pipe_without_a_reader() {
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("access");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo runs").success());
    let config = tidegate_testkit::gateway::YAML_PROVIDER
        .replace("enable_access_log: false", &format!("access_log: {}", pipe.display()));
    assert!(config.contains("access_log: /"), "{config}");
    let gateway = Gateway::start(&config, Some("routes: []\n"));
    assert_eq!(gateway.client().get("h", "/").expect("an answer").status(), 404);
}
