//! Export and import, through the Admin API and on the command line.

use std::fs;
use std::process::Command;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{Gateway, YAML_PROVIDER, binary};

use super::{VIEWER_KEY, ask, checked, get, route, start, status};
use crate::protocols::certs;

/// Texts that a reader of YAML could take for something else, and one of each kind of object.
fn fill(gateway: &Gateway) {
    let pair = certs::self_signed("test.com");
    let texts = [
        "on",
        "no",
        "010",
        "1e3",
        "0x1f",
        "null",
        "~",
        "",
        " x ",
        "a: b",
        "# c",
        "'",
        "\"",
        "é\n\ttwo\n",
        "${x",
        "|",
        "- a",
    ];
    let nodes = json!({"127.0.0.1:1": 1});
    let desc = texts.join("\n");
    for (path, value) in [
        (
            "/secrets/vault/1",
            json!({"uri": "http://127.0.0.1:1", "prefix": "kv/apisix", "token": "plain-token"}),
        ),
        ("/protos/1", json!({"content": "syntax = \"proto3\";\npackage a;\nmessage M { string n = 1; }\n"})),
        ("/ssls/1", json!({"cert": pair.cert, "key": pair.key, "snis": ["test.com"]})),
        ("/upstreams/u", json!({"nodes": nodes, "desc": desc})),
        ("/services/s", json!({"upstream_id": "u", "hosts": ["h"]})),
        ("/plugin_configs/p", json!({"plugins": {"response-rewrite": {"headers": {"set": {"X-A": "on"}}}}})),
        (
            "/consumer_groups/g",
            json!({"plugins": {"limit-count": {"count": 9, "time_window": 60, "rejected_code": 503, "group": "g"}}}),
        ),
        (
            "/consumers/jack",
            json!({"username": "jack", "group_id": "g", "plugins": {"key-auth": {"key": "jacks"}}}),
        ),
        ("/consumers/jack/credentials/c", json!({"plugins": {"key-auth": {"key": "010"}}})),
        ("/global_rules/1", json!({"plugins": {"cors": {}}})),
        ("/plugin_metadata/http-logger", json!({"log_format": {"host": "$host"}})),
        ("/routes/1", route("/mocked")),
        (
            "/routes/2",
            json!({"uri": "/s", "service_id": "s", "plugin_config_id": "p", "vars": [["arg_n", "in", texts]], "priority": 3}),
        ),
    ] {
        checked(gateway, "PUT", path, &value, 201);
    }
}

fn export(gateway: &Gateway) -> String {
    let answer = ask(gateway, "GET", "/export", "", "");
    assert_eq!(answer.status(), 200, "{}", answer.body_text());
    assert_eq!(answer.header("Content-Type"), Some("application/yaml"));
    answer.body_text()
}

fn import(gateway: &Gateway, query: &str, text: &str, status: u16) -> Value {
    let answer = ask(gateway, "PUT", &format!("/import{query}"), "Content-Type: application/yaml\r\n", text);
    assert_eq!(answer.status(), status, "{}", answer.body_text());
    serde_json::from_str(&answer.body_text()).expect("JSON")
}

#[test]
fn an_export_makes_the_same_configuration_elsewhere() {
    let first = start();
    fill(&first);
    let exported = export(&first);
    assert!(exported.ends_with("\n#END\n"), "{exported}");

    let second = start();
    checked(&second, "PUT", "/routes/other", &route("/other"), 201);
    let dry = import(&second, "?dry_run=true", &exported, 200);
    assert_eq!(dry["changes"].as_array().map(Vec::len), Some(13), "{dry}");
    assert_eq!(get(&second, "/revision")["stored"], 1);
    let done = import(&second, "", &exported, 200);
    assert_eq!(
        (&done["revision"], status(&second, "/mocked"), status(&second, "/other")),
        (&json!(2), 201, 201)
    );
    let done = import(&second, "?mode=replace", &exported, 200);
    let expected =
        json!([{"index": done["changes"][0]["index"], "resource": "routes/other", "action": "delete"}]);
    assert_eq!(done["changes"], expected, "what is the same is not written");
    assert_eq!(export(&second), exported);
    assert_eq!(get(&second, "/history/2")["note"], "import, merge");
    for path in
        ["/secrets/vault/1", "/consumers/jack/credentials/c", "/routes/2", "/plugin_metadata/http-logger"]
    {
        assert_eq!(get(&second, path)["value"], get(&first, path)["value"], "{path}");
    }

    // As the file that a gateway without Admin API serves from.
    let file = Gateway::start(YAML_PROVIDER, Some(&exported));
    assert_eq!(status(&file, "/mocked"), 201);
    assert!(!file.error_log().contains("failed to check"), "{}", file.error_log());
}

#[test]
fn a_bad_import_changes_nothing() {
    let gateway = start();
    checked(&gateway, "PUT", "/routes/1", &route("/a"), 201);
    for (text, part) in [
        ("routes:\n- {id: 2, uri: /b, upstream: {nodes: {'127.0.0.1:1': 1}}}\n", "#END"),
        ("routes: [\n#END", "invalid request body"),
        ("routes: {}\n#END", "/routes: should be a list"),
        ("global_rules:\n#END", "/global_rules: should be a list; write global_rules: [] for none"),
        ("rotes: []\n#END", "/rotes"),
        ("plugins: [cors]\n#END", "/plugins"),
        ("routes:\n- {id: 2, uri: /b, upstream_id: none}\n#END", "/routes/2"),
        ("routes:\n- {id: 2, uri: 5}\n- {id: 2, uri: /b}\n#END", "is duplicated"),
        ("secrets:\n- {id: one}\n#END", "MANAGER/ID"),
    ] {
        let refused = import(&gateway, "?mode=replace", text, 400);
        assert!(
            refused["error_msg"].as_str().is_some_and(|message| message.contains(part)),
            "{text}: {refused}"
        );
    }
    import(&gateway, "?mode=other", "#END", 400);
    assert_eq!((get(&gateway, "/revision")["stored"].clone(), status(&gateway, "/a")), (json!(1), 201));
    let viewer = ask(&gateway, "GET", "/export", &format!("X-API-KEY: {VIEWER_KEY}\r\n"), "");
    assert_eq!(viewer.status(), 403);
    // Nothing but the mark: nothing is left.
    import(&gateway, "?mode=replace", "#END", 200);
    assert_eq!(status(&gateway, "/a"), 404);
    assert_eq!(export(&gateway), "routes: []\n#END\n");
    import(&gateway, "?mode=replace", "routes: []\n#END\n", 200);
}

fn tidegate(gateway: &Gateway, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(binary());
    let output =
        command.args(arguments).arg("--prefix").arg(gateway.prefix()).output().expect("tidegate runs");
    (output.status.success(), String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned())
}

#[test]
fn the_commands_ask_the_running_gateway() {
    let gateway = start();
    fill(&gateway);
    let file = gateway.prefix().join("whole.yaml");
    let file = file.to_str().expect("a path");
    let check = |arguments: &[&str], success: bool, parts: &[&str]| {
        let (ended_well, text) = tidegate(&gateway, arguments);
        assert_eq!(ended_well, success, "{arguments:?}: {text}");
        for part in parts {
            assert!(text.contains(part), "{arguments:?}: {text:?} lacks {part:?}");
        }
    };
    check(&["config", "export", "-o", file], true, &[]);
    let exported = fs::read_to_string(file).expect("an export");
    assert_eq!(exported, export(&gateway));
    use std::os::unix::fs::PermissionsExt;
    assert_eq!(fs::metadata(file).expect("a file").permissions().mode() & 0o777, 0o600);
    check(&["config", "checkpoint", "full"], true, &["checkpoint full is revision 13, 13 objects"]);

    check(&["config", "import", file, "--dry-run"], true, &["0 objects would change"]);
    fs::write(file, "routes: []\n#END\n").expect("a file");
    check(
        &["config", "import", file, "--replace", "--dry-run"],
        true,
        &["delete routes/1", "13 objects would change"],
    );
    check(&["config", "import", file, "--replace"], true, &["13 objects changed", "at revision 14"]);
    fs::write(file, "routes: [{id: 1, uri: 5}]\n#END\n").expect("a file");
    check(&["config", "import", file], false, &["whole.yaml", "400", "/routes/1"]);
    check(&["config", "history"], true, &["import, replace", "admin 127.0.0.1", "14 of 14"]);
    check(&["config", "history", "--key", "/routes/1"], true, &["PUT /apisix/admin/routes/1", "2 of 2"]);
    check(&["config", "history", "12"], true, &["create routes/1", "/mocked"]);
    check(&["config", "rollback", "13", "--dry-run"], true, &["create routes/1", "13 objects would change"]);
    check(&["config", "rollback", "full"], true, &["13 objects changed", "at revision 15"]);
    check(&["config", "rollback", "77"], false, &["404", "revision 77 does not exist yet"]);
    assert_eq!(export(&gateway), exported);
}
