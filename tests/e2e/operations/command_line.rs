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
    assert!(
        text.contains("features  lua, grpc-transcode, kubernetes, etcd, redis, bench, import, wasm"),
        "{text}"
    );
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

/// Whoever has lost data/ must not find out from clients.
#[test]
fn a_start_names_the_store_that_it_makes() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.stop();
    for is_new in [false, true] {
        if is_new {
            std::fs::remove_dir_all(gateway.prefix().join("data")).expect("removed");
        }
        let (success, text) = gateway.verb("start");
        assert!(success, "{text}");
        assert_eq!(text.contains("a new, empty store is in "), is_new, "{text}");
        let (success, text) = gateway.verb("stop");
        assert!(success, "{text}");
    }
}

#[test]
fn health_is_that_of_the_gateway() {
    let gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.verb("health"), (true, String::new()));
    // Not that of another gateway, at the default ports.
    let folder = tempfile::tempdir().expect("a folder");
    let none = folder.path().join("none");
    for verb in ["health", "routes"] {
        let output = Command::new(binary()).arg(verb).arg("--prefix").arg(&none).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && said.contains("has no folder conf/"), "{verb}: {said}");
    }
    // Nor at the ports that its config.yaml names.
    let conf = folder.path().join("conf");
    std::fs::create_dir(&conf).expect("a folder");
    std::fs::copy(gateway.prefix().join("conf/config.yaml"), conf.join("config.yaml")).expect("copied");
    let output =
        Command::new(binary()).args(["health", "--prefix"]).arg(folder.path()).output().expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("does not run; what answers on its ports is another one"), "{said}");
}

/// What a reload refuses must not have the container of a gateway that serves ended.
#[test]
fn an_edit_that_no_reload_takes_is_not_ill_health() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    let file = gateway.prefix().join("conf/config.yaml");
    let before = std::fs::read_to_string(&file).expect("readable");
    let elsewhere = before.replacen(
        &format!("port: {}", gateway.control.port()),
        &format!("port: {}", tidegate_testkit::free_port()),
        1,
    );
    assert_ne!(elsewhere, before);
    for edited in [format!("{before}\nfoo: ["), elsewhere] {
        std::fs::write(&file, &edited).expect("written");
        let (well, said) = gateway.verb("health");
        assert!(well && said.contains("the gateway runs with the settings of before and answers"), "{said}");
    }
    gateway.process.stop();
    let (well, said) = gateway.verb("health");
    assert!(!well && said.contains("is the gateway running?"), "{said}");
}

#[test]
fn verbs_ask_at_addresses_of_version_6() {
    let config = EMBEDDED.replace("control: {ip: 127.0.0.1", "control: {ip: \"::1\"");
    let config = config
        .replace("admin_listen: {ip: 127.0.0.1", "allow_admin: [\"::1\"]\n    admin_listen: {ip: \"::1\"");
    let gateway = Gateway::start(&config, None);
    for words in [&["health"][..], &["routes"], &["config", "export"], &["explain", "GET", "/"]] {
        let (success, text) = gateway.verb_with(words);
        assert!(success, "{words:?}: {text}");
    }
}

#[test]
fn a_certificate_that_cannot_be_used_is_a_value_that_cannot() {
    for how in ["/nonexistent/a,/nonexistent/b", "/dev/null,/dev/null"] {
        let output =
            Command::new(binary()).args(["echo", "--tls", how, "--port", "0"]).output().expect("runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(&format!("--tls {how}: ")), "{said}");
    }
}

/// The names of everything in a folder.
fn names(folder: &std::path::Path) -> Vec<String> {
    let mut names = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        names.push(path.display().to_string());
        if path.is_dir() {
            names.extend(self::names(&path));
        }
    }
    names.sort();
    names
}

#[test]
fn verbs_that_read_make_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let prefix = folder.path().to_str().expect("a path");
    tidegate(&["init", "--prefix", prefix]);
    let before = names(folder.path());
    for words in [
        &["explain", "GET", "/", "--offline"][..],
        &["explain", "GET", "/"],
        &["test"],
        &["doctor"],
        &["health"],
        &["routes"],
        &["connections"],
        &["config", "export"],
        &["config", "diff", "/dev/null"],
        &["config", "history"],
        &["config", "repair", "--dry-run"],
        &["config", "backup", "/nonexistent/file"],
    ] {
        Command::new(binary()).args(words).args(["--prefix", prefix]).output().expect("runs");
        assert_eq!(names(folder.path()), before, "{words:?}");
    }
    let (words, wanted) = (["explain", "GET", "/", "--offline", "--prefix", prefix], "no route");
    assert!(tidegate(&words).contains(wanted));
}
