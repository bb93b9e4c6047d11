//! examples/: each folder runs by one command and prints its transcript, in which `...` stands for anything.
//!
//! The examples have the default ports, in a network of their own where the system allows it; elsewhere they are skipped.

use std::collections::BTreeSet;
use std::fs;

use tidegate_testkit::gateway::{binary, workspace_root};

use crate::pages::{network, transcript::matches};

fn replay(name: &str) {
    if !network::own_network() {
        eprintln!("skipped: this machine allows no network of one's own");
        return;
    }
    let folder = workspace_root().join("examples").join(name);
    let run = folder.join("run.sh");
    let output = network::in_own_network(&format!("exec '{}'", run.display()), 120)
        .env("TIDEGATE", binary())
        .env("REQUESTS", "200")
        .env_remove("KEEP")
        .output()
        .expect("the example runs");
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}:\n{printed}\n{complaint}", output.status);
    let transcript = fs::read_to_string(folder.join("transcript.txt")).expect("a transcript");
    let (mut shown, mut lines) = (transcript.lines(), printed.lines());
    loop {
        match (shown.next(), lines.next()) {
            (None, None) => return,
            (Some(pattern), Some(line)) if matches(pattern, line) => {}
            (pattern, line) => {
                panic!("{name}: expected {pattern:?}, printed {line:?}, in\n{printed}\n{complaint}")
            }
        }
    }
}

/// A test for each example.
macro_rules! examples {
    ($($test:ident $name:literal)+) => {
        $(#[test]
        fn $test() {
            replay($name);
        })+

        const NAMES: &[&str] = &[$($name),+];
    };
}

examples! {
    canary "canary"
    first_route "first-route"
    grpc "grpc"
    jwt_team "jwt-team"
    latency "latency"
    own_plugin "own-plugin"
    redis_limits "redis-limits"
    standalone_git "standalone-git"
    static_tls "static-tls"
    three_gateways "three-gateways"
    websocket_chat "websocket-chat"
}

#[test]
fn every_example_is_replayed_and_listed() {
    let folder = workspace_root().join("examples");
    let entries = fs::read_dir(&folder).expect("examples").flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names: BTreeSet<String> =
        folders.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    assert_eq!(names.iter().map(String::as_str).collect::<Vec<_>>(), NAMES);
    for index in ["README.md", "README.zh-CN.md"] {
        let text = fs::read_to_string(folder.join(index)).expect("an index");
        for name in NAMES {
            assert!(text.contains(&format!("[{name}]({name}/run.sh)")), "{index} lacks {name}");
        }
    }
}
