//! What the verbs say about themselves and about what they did.

use std::process::Command;

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, binary};

fn tidegate(words: &[&str]) -> String {
    let output = Command::new(binary()).args(words).env_remove("TIDEGATE_PREFIX").output().expect("runs");
    let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
    assert!(output.status.success(), "{words:?}: {text}");
    text
}

#[test]
fn version_names_commit_date_profile_and_features() {
    let text = tidegate(&["version"]);
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.first(), Some(&env!("CARGO_PKG_VERSION")), "scripts read the first line");
    let names: Vec<&str> = lines.iter().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, ["commit", "date", "profile", "features", "without"], "{text}");
    assert!(text.contains("features  lua, grpc-transcode, kubernetes, etcd, redis, bench, import"), "{text}");
    assert_eq!(tidegate(&["--version"]), format!("tidegate {}\n", env!("CARGO_PKG_VERSION")));
}

#[test]
fn help_shows_what_a_verb_reads() {
    for (verb, shown) in [
        ("run", &["--prefix", "--config", "--listen"][..]),
        ("stop", &["--prefix"]),
        ("routes", &["--prefix", "--config"]),
        ("version", &[]),
        ("completions", &[]),
        ("echo", &["--listen"]),
        ("proxy", &["--listen"]),
    ] {
        let help = tidegate(&[verb, "--help"]);
        for flag in ["--prefix", "--config", "--listen"] {
            let is_shown = help.contains(&format!("{flag} <"));
            assert_eq!(is_shown, shown.contains(&flag), "{verb} {flag}\n{help}");
        }
    }
    // A script that gives its flags to every verb works as before.
    tidegate(&["version", "--prefix", "/nonexistent", "--listen", "1"]);
    tidegate(&["--prefix", "/nonexistent", "version"]);
}

#[test]
fn stop_and_quit_say_what_happened() {
    for (verb, said) in
        [("stop", "stopped after"), ("quit", "takes no more connections and ends after its last answer")]
    {
        let mut gateway = Gateway::start(EMBEDDED, None);
        gateway.process.stop();
        let (success, text) = gateway.verb("start");
        let process = text.lines().find_map(|line| line.strip_prefix("tidegate: running as process "));
        let process = process.unwrap_or_else(|| panic!("{success} {text}")).to_owned();
        let (success, text) = gateway.verb(verb);
        assert!(success && text.starts_with(&format!("tidegate: process {process} ")), "{text}");
        assert!(text.contains(said), "{text}");
        tidegate_testkit::eventually("its end", || gateway.pid().is_none());
        let (success, text) = gateway.verb(verb);
        assert!(!success && text.contains("not running"), "{text}");
    }
}

#[test]
fn health_is_that_of_the_gateway() {
    let gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.verb("health"), (true, String::new()));
}
