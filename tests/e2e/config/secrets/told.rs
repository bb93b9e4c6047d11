//! Whoever writes a reference that leads nowhere is told, whatever the plugin.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, Gateway};
use tidegate_testkit::{Client, Message};

const NOWHERE: &str = "$env://TIDEGATE_UNSET";

fn put(gateway: &Gateway, path: &str, object: &Value) -> Message {
    let body = object.to_string();
    let mut client = Client::connect(gateway.admin).expect("the admin port accepts connections");
    let request = format!(
        "PUT /apisix/admin/{path} HTTP/1.1\r\nHost: a\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    client.request(&request).expect("an answer")
}

fn route(plugins: &Value) -> Value {
    json!({"uri": "/z", "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

/// Plugins with the reference in a field, and the field.
fn plugins() -> Vec<(Value, &'static str)> {
    vec![
        // They refuse no request, and run with the text.
        (json!({"response-rewrite": {"body": NOWHERE}}), "body"),
        (json!({"response-rewrite": {"headers": {"set": {"X-Title": NOWHERE}}}}), "X-Title"),
        (json!({"proxy-rewrite": {"headers": {"set": {"Authorization": NOWHERE}}}}), "Authorization"),
        (json!({"proxy-rewrite": {"host": "a.example", "headers": {"add": {"X-Key": NOWHERE}}}}), "X-Key"),
        (json!({"redirect": {"uri": NOWHERE}}), "uri"),
        (json!({"mocking": {"response_example": NOWHERE}}), "response_example"),
        (json!({"echo": {"body": NOWHERE}}), "body"),
        (json!({"cors": {"allow_headers": NOWHERE}}), "allow_headers"),
        (json!({"http-logger": {"uri": "http://127.0.0.1:1/", "log_format": {"k": NOWHERE}}}), "k"),
        // In a field that holds a secret.
        (json!({"http-logger": {"uri": "http://127.0.0.1:1/", "auth_header": NOWHERE}}), "auth_header"),
        // They may refuse requests.
        (json!({"csrf": {"key": NOWHERE}}), "key"),
        (json!({"opa": {"host": NOWHERE, "policy": "p"}}), "host"),
        (json!({"key-auth": {"realm": NOWHERE}}), "realm"),
    ]
}

#[test]
fn every_plugin_tells_at_the_write() {
    let gateway = Gateway::start(EMBEDDED, None);
    for (plugins, field) in plugins() {
        let wanted = format!("failed to resolve secret reference: {NOWHERE}, field: {field}, err: no value");
        let answer = put(&gateway, "routes/z", &route(&plugins));
        assert!(matches!(answer.status(), 200 | 201), "{plugins}: {}", answer.body_text());
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(told.contains(&wanted), "{plugins}: {told:?}");
        gateway.wait_for_log(&wanted);
    }
    let good = put(&gateway, "routes/z", &route(&json!({"response-rewrite": {"body": "plain"}})));
    assert_eq!(good.header("X-Tidegate-Warning"), None, "what is mended is not told of");
}

/// A manager's own token, and metadata, where nothing is replaced.
#[test]
fn so_do_secrets_and_metadata() {
    let gateway = Gateway::start(EMBEDDED, None);
    let manager = json!({"uri": "http://127.0.0.1:1", "prefix": "p", "token": NOWHERE});
    let metadata = json!({"log_format": {"host": NOWHERE}});
    for (path, object, wanted) in [
        (
            "secrets/vault/1",
            manager,
            "failed to resolve secret reference: $env://TIDEGATE_UNSET, field: token",
        ),
        (
            "plugin_metadata/http-logger",
            metadata,
            "log_format.host is used literally: references are not resolved in plugin metadata",
        ),
    ] {
        let answer = put(&gateway, path, &object);
        assert!(matches!(answer.status(), 200 | 201), "{path}: {}", answer.body_text());
        let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
        assert!(told.contains(wanted), "{path}: {told:?}");
        gateway.wait_for_log(wanted);
    }
}

#[test]
fn so_does_every_object_that_has_plugins() {
    let gateway = Gateway::start(EMBEDDED, None);
    let rewrite = json!({"response-rewrite": {"body": NOWHERE}});
    for (path, object) in [
        ("services/s", json!({"plugins": rewrite})),
        ("plugin_configs/c", json!({"plugins": rewrite})),
        ("global_rules/g", json!({"plugins": rewrite})),
        ("consumer_groups/g", json!({"plugins": rewrite})),
        ("consumers/u", json!({"username": "u", "plugins": rewrite})),
    ] {
        for _ in 0..2 {
            let answer = put(&gateway, path, &object);
            assert!(matches!(answer.status(), 200 | 201), "{path}: {}", answer.body_text());
            let told = answer.header("X-Tidegate-Warning").unwrap_or_default();
            assert!(
                told.contains(&format!("failed to resolve secret reference: {NOWHERE}")),
                "{path}: {told:?}"
            );
        }
        gateway.wait_for_log(&format!("{path}: failed to resolve secret reference: {NOWHERE}"));
    }
}
