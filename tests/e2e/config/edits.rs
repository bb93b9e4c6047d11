//! What an edit through the Admin API leaves alone, and what it must not be taken for.

use serde_json::{Value, json};
use tidegate_testkit::Gateway;
use tidegate_testkit::gateway::EMBEDDED;

const GUARDED: &str =
    r#"{"uri": "/g", "plugins": {"key-auth": {"header": "k"}, "mocking": {"response_example": "in"}}}"#;

fn status(gateway: &Gateway, path: &str, fields: &str) -> u16 {
    let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
    gateway.client().request(&request).expect("an answer").status()
}

/// As APISIX's `core.table.merge`: an object with fields keeps those that are not named.
#[test]
fn an_empty_object_takes_no_guard_away() {
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |path: &str, body: &str| {
        let (code, answer) = gateway.admin("PUT", path, body);
        assert!(code < 300, "{path}: {answer}");
    };
    put("/apisix/admin/routes/1", GUARDED);
    put("/apisix/admin/services/1", r#"{"plugins": {"key-auth": {}}}"#);
    put(
        "/apisix/admin/routes/2",
        r#"{"uri": "/s", "service_id": "1", "plugins": {"mocking": {"response_example": "in"}}}"#,
    );
    put("/apisix/admin/plugin_configs/1", r#"{"plugins": {"key-auth": {}}}"#);
    put(
        "/apisix/admin/routes/3",
        r#"{"uri": "/c", "plugin_config_id": "1", "plugins": {"mocking": {"response_example": "in"}}}"#,
    );
    for body in [r#"{"plugins": {}}"#, r#"{"plugins": []}"#, r#"{"plugins": {"key-auth": {}}}"#, "[]", "{}"] {
        for path in ["routes/1", "services/1", "plugin_configs/1"] {
            let (code, answer) = gateway.admin("PATCH", &format!("/apisix/admin/{path}"), body);
            assert_eq!(code, 200, "{path} {body}: {answer}");
        }
        let change = json!([{"method": "PATCH", "path": "/routes/1", "value": serde_json::from_str::<Value>(body).expect("JSON")}]);
        if body.starts_with('{') {
            let body = json!({ "changes": change }).to_string();
            let (code, answer) = gateway.admin("POST", "/apisix/admin/transactions", &body);
            assert_eq!(code, 200, "{body}: {answer}");
        }
        for path in ["/g", "/s", "/c"] {
            assert_eq!(status(&gateway, path, ""), 401, "{path} {body}");
        }
    }
    // What it names is changed; what is to go is named with null.
    assert_eq!(gateway.admin("PATCH", "/apisix/admin/routes/1", r#"{"plugins": {"key-auth": null}}"#).0, 200);
    assert_eq!(status(&gateway, "/g", ""), 200);
}

#[test]
fn a_list_of_operations_is_no_merge() {
    let gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    for body in [r#"[{"op": "add", "path": "/desc", "value": "d"}]"#, "[1, null]"] {
        let (code, answer) = gateway.admin("PATCH", "/apisix/admin/routes/1", body);
        assert_eq!(code, 400, "{body}");
        assert!(answer.contains("RFC 6902"), "{answer}");
    }
}

#[test]
fn a_mask_is_no_secret() {
    let gateway = Gateway::start(EMBEDDED, None);
    let refused = |path: &str, body: &Value, place: &str| {
        let (code, answer) = gateway.admin("PUT", path, &body.to_string());
        assert_eq!(code, 400, "{path} {body}: {answer}");
        assert!(answer.contains(place) && answer.contains("PATCH"), "{answer}");
    };
    let consumer = |plugin: &str, conf: Value| json!({"username": "jack", "plugins": {plugin: conf}});
    refused("/apisix/admin/consumers", &consumer("key-auth", json!({"key": "***"})), "plugins.key-auth.key");
    refused(
        "/apisix/admin/consumers",
        &consumer("basic-auth", json!({"username": "jack", "password": "***"})),
        "plugins.basic-auth.password",
    );
    refused(
        "/apisix/admin/consumers",
        &consumer("jwt-auth", json!({"key": "k", "secret": "***"})),
        "plugins.jwt-auth.secret",
    );
    refused(
        "/apisix/admin/routes/1",
        &json!({"uri": "/", "plugins": {"csrf": {"key": "***"}}}),
        "plugins.csrf.key",
    );
    // Elsewhere it is a text like any.
    let stars = json!({"uri": "/***", "desc": "***", "plugins": {"mocking": {"response_example": "***"}}});
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", &stars.to_string()).0, 201);
}

#[test]
fn an_import_takes_no_unknown_argument() {
    let gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    for argument in ["dryrun=true", "dry-run=true", "DRY_RUN=true"] {
        let path = format!("/apisix/admin/import?mode=replace&{argument}");
        let (code, answer) = gateway.admin("PUT", &path, "routes: []\n#END\n");
        assert_eq!(code, 400, "{argument}: {answer}");
        assert!(answer.contains("unknown argument"), "{answer}");
    }
    assert_eq!(status(&gateway, "/g", ""), 401);
}

/// Wherever it is not offered: taken for nothing, it would write.
#[test]
fn a_dry_run_that_is_not_offered_writes_nothing() {
    let gateway = Gateway::start(EMBEDDED, None);
    assert_eq!(gateway.admin("PUT", "/apisix/admin/routes/1", GUARDED).0, 201);
    let removal = json!({"changes": [{"method": "DELETE", "path": "/routes/1"}]}).to_string();
    for (method, path, body) in [
        ("POST", "rollback", r#"{"revision": 0}"#),
        ("POST", "transactions", &removal),
        ("DELETE", "routes/1", ""),
        ("PATCH", "routes/1", r#"{"plugins": {"key-auth": null}}"#),
        ("PUT", "checkpoints/c", ""),
    ] {
        for argument in ["dry_run=true", "dryRun=1", "dry-run"] {
            let (code, answer) = gateway.admin(method, &format!("/apisix/admin/{path}?{argument}"), body);
            assert_eq!(code, 400, "{method} {path} {argument}: {answer}");
        }
    }
    let twice = "/apisix/admin/import?mode=replace&dry_run=false&dry_run=true";
    assert_eq!(gateway.admin("PUT", twice, "routes: []\n#END\n").0, 400);
    assert_eq!(status(&gateway, "/g", ""), 401);
}
