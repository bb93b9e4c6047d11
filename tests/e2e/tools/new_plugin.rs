//! `scripts/new-plugin`, in a copy of the files that it reads and writes. That the plugin builds is tried by hand when the
//! script changes (CONTRIBUTING.md): it takes a build of its own.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tempfile::TempDir;
use tidegate_testkit::gateway::workspace_root;

const GROUP: &str = "crates/plugins/src/observability";

fn copy() -> TempDir {
    let copy = tempfile::tempdir().expect("a folder");
    for file in [
        "scripts/new-plugin",
        "crates/plugins/src/lib.rs",
        "docs/plugins/README.md",
        "docs/plugins/README.zh-CN.md",
        "conf/config.yaml",
    ] {
        copy_file(file, copy.path());
    }
    // The priorities that are taken are in the plugins' code.
    for group in fs::read_dir(workspace_root().join("crates/plugins/src")).expect("the plugins").flatten() {
        for entry in fs::read_dir(group.path()).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.extension().is_some_and(|ending| ending == "rs") {
                let inner = path.strip_prefix(workspace_root()).expect("below the root");
                copy_file(&inner.display().to_string(), copy.path());
            }
        }
    }
    copy
}

fn copy_file(file: &str, root: &Path) {
    let target = root.join(file);
    fs::create_dir_all(target.parent().expect("a folder")).expect("created");
    fs::copy(workspace_root().join(file), target).expect("copied");
}

/// What the script says, and whether it was content.
fn run(root: &Path, arguments: &[&str]) -> (bool, String) {
    let output = Command::new("python3")
        .arg(root.join("scripts/new-plugin"))
        .args(arguments)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .expect("python3 runs");
    let text = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&text).into_owned())
}

/// The lines that a file has more than in the checkout, with the one before each.
fn added(root: &Path, file: &str) -> Vec<(String, String)> {
    let before = fs::read_to_string(workspace_root().join(file)).expect("the file");
    let after = fs::read_to_string(root.join(file)).expect("the file");
    let mut old = before.lines().peekable();
    let mut previous = String::new();
    let mut added = Vec::new();
    for line in after.lines() {
        if old.next_if_eq(&line).is_none() {
            added.push((previous, line.trim().to_owned()));
        }
        previous = line.trim().to_owned();
    }
    assert_eq!(old.next(), None, "{file}: lines are gone");
    added
}

#[test]
fn a_plugin_is_made_by_one_command() {
    let copy = copy();
    let root = copy.path();
    let (fine, said) = run(root, &["prometheus-notes", "--group", "observability"]);
    assert!(fine, "{said}");
    let read =
        |file: &str| fs::read_to_string(root.join(file)).unwrap_or_else(|_| panic!("no {file}\n{said}"));
    let code = read(&format!("{GROUP}/prometheus_notes.rs"));
    for expected in [
        "name: \"prometheus-notes\",",
        // 100 is that of log-rotate.
        "priority: 99,",
        "include_str!(\"prometheus_notes.json\")",
        "impl Plugin for PrometheusNotes {",
        "\"X-Prometheus-Notes\"",
        "#[test]",
    ] {
        assert!(code.contains(expected), "{expected} is not in\n{code}");
    }
    let schema: Value = serde_json::from_str(&read(&format!("{GROUP}/prometheus_notes.json"))).expect("JSON");
    assert_eq!(schema["required"], serde_json::json!(["value"]));
    for (page, other) in [("md", "prometheus-notes.zh-CN.md"), ("zh-CN.md", "prometheus-notes.md")] {
        let text = read(&format!("docs/plugins/prometheus-notes.{page}"));
        assert!(text.starts_with("# prometheus-notes\n") && text.contains(other), "{text}");
        assert!(text.contains("TO WRITE") && text.contains("\"prometheus-notes\": {\"value\""), "{text}");
    }
    assert_eq!(
        added(root, "crates/plugins/src/lib.rs"),
        [("pub(crate) mod prometheus;".to_owned(), "pub(crate) mod prometheus_notes;".to_owned())]
    );
    for index in ["docs/plugins/README.md", "docs/plugins/README.zh-CN.md"] {
        let index = added(root, index);
        let [(before, line)] = index.as_slice() else { panic!("{index:?}") };
        assert!(
            before.starts_with("- [prometheus]") && line.starts_with("- [prometheus-notes]"),
            "{index:?}"
        );
    }
    // Those that are on stand in the order in which they run.
    assert_eq!(
        added(root, "conf/config.yaml"),
        [("#- tencent-cloud-cls".to_owned(), "#- prometheus-notes".to_owned())]
    );
}

#[test]
fn attributes_stay_with_their_modules() {
    let copy = copy();
    let root = copy.path();
    let (fine, said) = run(root, &["brown-paper", "--group", "transformation", "--priority", "77"]);
    assert!(fine, "{said}");
    assert_eq!(
        added(root, "crates/plugins/src/lib.rs"),
        [("pub(crate) mod body_transformer;".to_owned(), "pub(crate) mod brown_paper;".to_owned())]
    );
    let (fine, said) = run(root, &["blank-paper", "--group", "transformation", "--priority", "78"]);
    assert!(fine, "{said}");
    let list = fs::read_to_string(root.join("crates/plugins/src/lib.rs")).expect("the list");
    let place = "    pub(crate) mod blank_paper;\n    #[cfg(feature = \"lua\")]\n    pub(crate) mod body_transformer;\n";
    assert!(list.contains(place), "{list}");
}

#[test]
fn what_cannot_be_made_is_said_and_nothing_is_written() {
    let copy = copy();
    let root = copy.path();
    for (arguments, expected) in [
        (["key-auth", "--group", "security"].as_slice(), "there is a plugin key-auth"),
        (&["Say_Hello", "--group", "other"], "names are small letters"),
        (&["say-hello", "--group", "greetings"], "invalid choice"),
        (&["say-hello"], "--group"),
        (&["say-hello", "--group", "other", "--priority", "2500"], "priority 2500 is that of key-auth"),
    ] {
        let (fine, said) = run(root, arguments);
        assert!(!fine && said.contains(expected), "{arguments:?}: {said}");
        assert!(added(root, "crates/plugins/src/lib.rs").is_empty(), "{arguments:?}");
    }
}
