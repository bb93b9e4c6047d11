//! The banner: it says what is not served, and its commands work in the mode that runs.

use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Etcd, Gateway, PATIENCE};

const HELLO: &str = "hello from tidegate";

/// Runs the commands of the banner as a user would, one after the other; what the last one printed.
fn try_it(gateway: &Gateway) -> String {
    let calls = calls(gateway);
    assert!(!calls.contains(ADMIN_KEY), "{calls}");
    let script = format!("set -e\ncurl() {{ command curl -sS --fail-with-body \"$@\"; }}\n{calls}\n");
    let output =
        Command::new("bash").args(["-c", &script]).env("ADMIN_KEY", ADMIN_KEY).output().expect("bash runs");
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    assert!(output.status.success(), "{calls}\n{text}");
    text
}

/// What is between `Try it:` and the empty line that ends the banner.
fn calls(gateway: &Gateway) -> String {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let printed = gateway.process.output();
        let calls = printed.split_once("\nTry it:\n").and_then(|(_, rest)| rest.split_once("\n\n"));
        if let Some((calls, _)) = calls {
            return calls.to_owned();
        }
        assert!(Instant::now() < deadline, "no banner:\n{printed}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn its_commands_work_in_every_mode() {
    let generated = EMBEDDED.replace("admin_key: [{name: admin, key: test-admin-key, role: admin}]", "");
    let open = EMBEDDED
        .replace("admin_key: [{name: admin, key: test-admin-key, role: admin}]", "admin_key_required: false");
    let by_api = EMBEDDED.replace("config_provider: embedded", "config_provider: yaml");
    let shared = EMBEDDED.replace("@ADMIN@", "@HTTP@");
    for config in [EMBEDDED, &generated, &open, &by_api, &shared] {
        let gateway = Gateway::start(config, None);
        let text = try_it(&gateway);
        assert!(text.contains(HELLO), "{config}\n{text}");
    }
    let routes = "routes: [{id: from-a-file, uri: /f, upstream: {nodes: {'127.0.0.1:1': 1}}}]\n";
    let gateway = Gateway::start(YAML_PROVIDER, Some(routes));
    assert!(try_it(&gateway).contains("from-a-file"));
    assert!(gateway.process.output().contains("conf/apisix.yaml"), "{}", gateway.process.output());
}

#[test]
fn its_commands_work_with_etcd() {
    let etcd = Etcd::start();
    let config = EMBEDDED.replace(
        "  role_traditional: {config_provider: embedded}\n",
        &format!("  role_traditional: {{config_provider: etcd}}\n  etcd: {{host: [\"{}\"]}}\n", etcd.url()),
    );
    assert!(try_it(&Gateway::start(&config, None)).contains(HELLO));
}

#[test]
fn without_the_plugin_of_the_example_it_offers_another() {
    let gateway = Gateway::start(&format!("{EMBEDDED}plugins: [cors]\n"), None);
    let text = try_it(&gateway);
    assert!(text.contains("\"total\":0"), "{text}");
}

/// Takes the default port for HTTPS; where another process has it, that is as good.
fn take_9443() -> Option<TcpListener> {
    TcpListener::bind("0.0.0.0:9443").ok()
}

#[test]
fn https_that_is_not_served_is_told() {
    let _taken = take_9443();
    let config = EMBEDDED.replace("ssl: {enable: false}", "enable_ipv6: false");
    let mut gateway = Gateway::start(&config, None);
    gateway.process.wait_for_output("Try it:");
    let printed = gateway.process.output();
    assert!(printed.contains("HTTPS       not served: cannot listen on 0.0.0.0:9443"), "{printed}");
    gateway.wait_for_log("HTTPS is not served: cannot listen on 0.0.0.0:9443");
    gateway.process.stop();
    let (success, said) = gateway.verb("start");
    assert!(success && said.contains("HTTPS is not served"), "{said}");
    assert!(gateway.verb("stop").0);
    // A port that config.yaml names is not optional.
    name_9443(gateway.prefix());
    let (success, said) = gateway.verb("start");
    assert!(!success && said.contains("cannot listen on 0.0.0.0:9443"), "{said}");
}

fn name_9443(prefix: &Path) {
    let path = prefix.join("conf/config.yaml");
    let text = fs::read_to_string(&path).expect("config.yaml");
    fs::write(&path, text.replace("enable_ipv6: false", "enable_ipv6: false\n  ssl: {listen: [9443]}"))
        .expect("written");
}
