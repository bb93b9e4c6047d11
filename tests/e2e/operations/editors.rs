//! What role editor may not write: code, files of the machine, and places that secrets would be sent to.

use serde_json::{Value, json};

use super::sessions::{Session, add_user, as_admin, start};

const NODE: &str = r#"{"nodes":{"127.0.0.1:1":1}}"#;

fn route(plugins: &Value) -> String {
    json!({"uri": "/a", "plugins": plugins, "upstream": serde_json::from_str::<Value>(NODE).expect("JSON")})
        .to_string()
}

#[test]
fn an_editor_writes_neither_code_nor_files() {
    let gateway = start();
    add_user(&gateway, "ed", "editor");
    let editor = Session::of_user(&gateway, "ed");
    let code = "return function() end";
    for (name, conf) in [
        ("static-files", json!({"root": gateway.prefix().join("data")})),
        ("file-logger", json!({"path": gateway.prefix().join("conf/config.yaml")})),
        ("serverless-pre-function", json!({"functions": [code]})),
        ("serverless-post-function", json!({"functions": ["error('seen: ' .. 1)"]})),
        ("body-transformer", json!({"request": {"template": "{% x = 1 %}"}})),
        ("authz-casbin", json!({"model_path": "data/admin.key", "policy_path": "x", "username": "u"})),
        ("google-cloud-logging", json!({"auth_file": "data/admin.key"})),
        ("key-auth", json!({"_meta": {"pre_function": code}})),
        (
            "multi-auth",
            json!({"auth_plugins": [{"key-auth": {"_meta": {"pre_function": code}}}, {"basic-auth": {}}]}),
        ),
    ] {
        let body = route(&json!({name: conf}));
        let response = editor.send("PUT", "/routes/1", &body);
        let text = response.body_text();
        assert_eq!(response.status(), 403, "{name}: {text}");
        assert!(text.contains(&format!("plugins.{name} is not for role editor: ")), "{text}");
        assert!(!text.contains("seen"), "it was not run: {text}");
        let changes = json!({"changes": [{"method": "PUT", "path": "/routes/1", "value": serde_json::from_str::<Value>(&body).expect("JSON")}]});
        let text = editor.send("POST", "/transactions", &changes.to_string()).body_text();
        assert!(text.contains("is not for role editor"), "{name}: {text}");
        let file = json!({"routes": [{"id": "1", "uri": "/a", "plugins": {name: conf}}]});
        let text = editor.send("PUT", "/import", &format!("{file}\n#END\n")).body_text();
        assert!(text.contains("is not for role editor"), "{name}: {text}");
    }
    for field in ["script", "filter_func"] {
        let body = json!({"uri": "/a", field: "function() return true end", "upstream_id": "1"}).to_string();
        let response = editor.send("PUT", "/routes/1", &body);
        assert_eq!(response.status(), 403, "{}", response.body_text());
    }
    let metadata = editor.send("PUT", "/plugin_metadata/file-logger", r#"{"path":"/tmp/x"}"#);
    assert_eq!(metadata.status(), 403, "{}", metadata.body_text());
    assert_eq!(editor.send("POST", "/configs/validate", "{}").status(), 401);
    // What an admin wrote stays where other parts change, and goes.
    let written = as_admin(
        &gateway,
        "PUT",
        "/routes/1",
        &route(&json!({"serverless-pre-function": {"functions": [code]}})),
    );
    assert_eq!(written.status(), 201, "{}", written.body_text());
    assert_eq!(editor.send("PATCH", "/routes/1", r#"{"desc":"x","plugins":{"cors":{}}}"#).status(), 200);
    assert_eq!(
        editor.send("PATCH", "/routes/1", r#"{"plugins":{"serverless-pre-function":null}}"#).status(),
        200
    );
    let back = editor.send("POST", "/rollback", &json!({"revision": revision_before(&gateway)}).to_string());
    assert!(back.body_text().contains("is not for role editor"), "{}", back.body_text());
}

fn revision_before(gateway: &tidegate_testkit::Gateway) -> u64 {
    let history = as_admin(gateway, "GET", "/history", "").body_text();
    let history: Value = serde_json::from_str(&history).expect("JSON");
    let revisions =
        history["list"].as_array().expect("a list").iter().filter_map(|entry| entry["revision"].as_u64());
    revisions.max().expect("a revision") - 1
}

#[test]
fn an_editor_sends_no_secret_elsewhere() {
    let gateway = start();
    add_user(&gateway, "ed", "editor");
    let editor = Session::of_user(&gateway, "ed");
    let logger =
        |uri: &str, header: &str| json!({"plugins": {"http-logger": {"uri": uri, "auth_header": header}}});
    for reference in ["$env://OPS_KEY", "$ENV://OPS_KEY", "$secret://vault/1/a/b"] {
        let body = logger("http://127.0.0.1:1/steal", reference).to_string();
        let response = editor.send("PUT", "/global_rules/1", &body);
        assert_eq!(response.status(), 403, "{reference}: {}", response.body_text());
    }
    let good = logger("http://127.0.0.1:1/log", "Basic open-sesame");
    assert_eq!(as_admin(&gateway, "PUT", "/global_rules/1", &good.to_string()).status(), 201);
    let elsewhere = json!({"plugins": {"http-logger": {"uri": "http://127.0.0.1:1/steal"}}});
    let response = editor.send("PATCH", "/global_rules/1", &elsewhere.to_string());
    let text = response.body_text();
    assert_eq!(response.status(), 403, "{text}");
    assert!(
        text.contains("it changes beside a secret that stays") && !text.contains("open-sesame"),
        "{text}"
    );
    let place =
        editor.send("PATCH", "/global_rules/1/plugins/http-logger/uri", r#""http://127.0.0.1:1/steal""#);
    assert_eq!(place.status(), 403, "{}", place.body_text());
    // With a secret of one's own, or beside the plugin.
    let own = logger("http://127.0.0.1:1/mine", "Basic mine");
    assert_eq!(editor.send("PUT", "/global_rules/1", &own.to_string()).status(), 200);
    assert_eq!(editor.send("PATCH", "/global_rules/1", r#"{"plugins":{"cors":{}}}"#).status(), 200);
    let vault = json!({"uri": "http://127.0.0.1:1", "prefix": "kv", "token": "open-sesame"}).to_string();
    assert_eq!(as_admin(&gateway, "PUT", "/secrets/vault/1", &vault).status(), 201);
    let moved = editor.send("PATCH", "/secrets/vault/1", r#"{"uri":"http://127.0.0.1:2"}"#);
    assert_eq!(moved.status(), 403, "{}", moved.body_text());
}
