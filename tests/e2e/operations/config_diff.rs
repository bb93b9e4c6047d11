//! `tidegate config diff`, and exports that are equal where the objects are.

use std::fs;
use std::process::Command;

use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER, binary};

fn put(gateway: &Gateway, path: &str, body: &str) {
    let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin{path}"), body);
    assert!(matches!(status, 200 | 201), "{path}: {answer}");
}

fn export(gateway: &Gateway) -> String {
    let (success, text) = gateway.verb_with(&["config", "export"]);
    assert!(success, "{text}");
    text
}

/// Without the times, which the gateway sets.
fn without_times(export: &str) -> String {
    export.lines().filter(|line| !line.contains("_time")).map(|line| format!("{line}\n")).collect()
}

#[test]
fn exports_do_not_depend_on_the_order_of_writing() {
    let (one, other) = (Gateway::start(EMBEDDED, None), Gateway::start(EMBEDDED, None));
    put(
        &one,
        "/routes/b",
        r#"{"uri": "/b", "name": "n", "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}"#,
    );
    put(
        &one,
        "/routes/a",
        r#"{"uri": "/a", "plugins": {"mocking": {"response_status": 204, "response_example": "x"}, "cors": {}}}"#,
    );
    put(
        &other,
        "/routes/a",
        r#"{"plugins": {"cors": {}, "mocking": {"response_example": "x", "response_status": 204}}, "uri": "/a"}"#,
    );
    put(
        &other,
        "/routes/b",
        r#"{"upstream": {"nodes": {"127.0.0.1:1": 1}, "type": "roundrobin"}, "name": "n", "uri": "/b"}"#,
    );
    let text = without_times(&export(&one));
    assert_eq!(text, without_times(&export(&other)));
    let places: Vec<_> = ["'a'", "'/a'", "'b'", "'/b'"].iter().map(|part| text.find(part)).collect();
    assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{places:?}\n{text}");
}

#[test]
fn a_diff_shows_fields_and_ends_as_diff_does() {
    let gateway = Gateway::start(EMBEDDED, None);
    put(&gateway, "/routes/1", r#"{"uri": "/a", "plugins": {"mocking": {"response_example": "x"}}}"#);
    put(
        &gateway,
        "/consumers/jack",
        r#"{"username": "jack", "plugins": {"key-auth": {"key": "secret-of-jack"}}}"#,
    );
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("wanted.yaml");
    let diff = |more: &[&str]| {
        let mut command = Command::new(binary());
        command.args(["config", "diff"]).arg(&file).args(more).arg("--prefix").arg(gateway.prefix());
        let output = command.output().expect("runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        (output.status.code(), text)
    };
    let same = export(&gateway);
    fs::write(&file, &same).expect("written");
    assert_eq!(diff(&[]), (Some(0), String::new()));
    fs::write(&file, same.replace("'/a'", "'/b'").replace("secret-of-jack", "another")).expect("written");
    let (code, text) = diff(&[]);
    assert!(code == Some(1) && text.contains("routes/1\n  - /uri: \"/a\"\n  + /uri: \"/b\"\n"), "{text}");
    assert!(text.contains("consumers/jack") && !text.contains("secret-of-jack"), "{text}");
    // Nothing was written.
    assert_eq!(export(&gateway), same);
    fs::write(&file, "routes: []\n#END\n").expect("written");
    let (code, text) = diff(&[]);
    assert!(code == Some(1) && text.contains("delete routes/1"), "{text}");
    assert_eq!(diff(&["--merge"]), (Some(0), String::new()));
    for wrong in ["routes: [\n#END\n", "routes: []\n", "rutes: []\n#END\n"] {
        fs::write(&file, wrong).expect("written");
        let (code, text) = diff(&[]);
        assert!(code == Some(2) && text.contains("wanted.yaml"), "{wrong}: {text}");
    }
    let files = Gateway::start(YAML_PROVIDER, Some("routes: []\n"));
    let mut command = Command::new(binary());
    let output = command.args(["config", "diff"]).arg(&file).arg("--prefix").arg(files.prefix()).output();
    assert_eq!(output.expect("runs").status.code(), Some(2));
}
