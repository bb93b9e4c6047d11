//! What etcd holds may be odd: no write has checked it. Its secrets are hidden all the same from viewers and from the Control
//! API.

use serde_json::{Value, json};
use tidegate_testkit::{Client, Etcd, Gateway, eventually, gateway::ADMIN_KEY};

use super::config;

const VIEWER_KEY: &str = "test-viewer-key";

/// Stands in each secret below.
const SECRET: &str = "0pen-Sesame";

/// Plugins that nobody knows, or of a shape that nobody expects.
fn odd_plugins() -> Vec<(&'static str, Value)> {
    let deep = json!({"list": [{"tokens": [SECRET, {"more": SECRET}]}], "text": SECRET});
    vec![
        ("unknown", json!({"custom-auth": deep})),
        ("misspelled", json!({"kye-auth": {"key": SECRET}, "basic_auth": {"password": SECRET}})),
        ("field", json!({"http-logger": {"uri": "http://127.0.0.1:1/", "authheader": SECRET}})),
        ("text", json!({"csrf": SECRET})),
        ("list", json!({"csrf": [SECRET], "key-auth": [{"key": SECRET}]})),
        ("secret-list", json!({"csrf": {"key": [SECRET, {"old": SECRET}]}})),
        ("secret-map", json!({"openid-connect": {"client_id": "c", "client_secret": {"value": SECRET}}})),
        ("nested", json!({"multi-auth": {"auth_plugins": [{"custom-auth": {"key": SECRET}}, SECRET]}})),
        (
            "action",
            json!({"workflow": {"rules": [{"actions": [["limit-count", {"redis_password": [SECRET]}]]}]}}),
        ),
        ("whole-text", json!(SECRET)),
        ("whole-list", json!([SECRET, {"key-auth": {"key": SECRET}}])),
    ]
}

fn shown(address: std::net::SocketAddr, path: &str, key: &str) -> (u16, String) {
    let key = if key.is_empty() { String::new() } else { format!("X-API-KEY: {key}\r\n") };
    let mut client = Client::connect(address).expect("connected");
    let answer = client.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{key}\r\n"));
    let answer = answer.expect("an answer");
    (answer.status(), answer.body_text())
}

#[test]
fn secrets_of_odd_objects_are_for_admins() {
    let etcd = Etcd::start();
    let mut paths = Vec::new();
    for (id, plugins) in odd_plugins() {
        let route = json!({"uri": format!("/{id}"), "plugins": plugins, "unknown_field": {"key": SECRET}});
        etcd.put(&format!("/apisix/routes/{id}"), &route.to_string());
        etcd.put(&format!("/apisix/services/{id}"), &json!({"plugins": plugins}).to_string());
        let consumer = json!({"username": id.replace('-', "_"), "plugins": plugins});
        etcd.put(&format!("/apisix/consumers/{}", id.replace('-', "_")), &consumer.to_string());
        paths.extend([format!("routes/{id}"), format!("services/{id}")]);
        paths.push(format!("consumers/{}", id.replace('-', "_")));
    }
    etcd.put("/apisix/ssls/odd", &json!({"snis": ["a.b"], "cert": "c", "key": [SECRET]}).to_string());
    etcd.put(
        "/apisix/secrets/vault/odd",
        &json!({"uri": "http://a", "token": {"value": SECRET}}).to_string(),
    );
    paths.extend(["ssls/odd".to_owned(), "secrets/vault/odd".to_owned()]);
    let keys = format!("role: admin}}, {{name: guest, key: {VIEWER_KEY}, role: viewer}}]");
    let gateway = Gateway::start(&config(&etcd.url()).replace("role: admin}]", &keys), None);
    eventually("all are there", || paths.iter().all(|path| admin(&gateway, path, ADMIN_KEY).0 == 200));
    let lists = ["routes", "services", "consumers", "ssls", "secrets"].map(str::to_owned);
    for path in paths.iter().chain(&lists) {
        let (status, text) = admin(&gateway, path, VIEWER_KEY);
        assert_eq!(status, 200, "{path}: {text}");
        // Keys of certificates are left out for everybody.
        let is_shown = path.starts_with("ssls") || text.contains("***");
        assert!(!text.contains(SECRET) && is_shown, "{path}: {text}");
    }
    for (id, _) in odd_plugins() {
        for path in [format!("/v1/route/{id}"), format!("/v1/service/{id}")] {
            let (status, text) = shown(gateway.control, &path, "");
            assert_eq!(status, 200, "{path}: {text}");
            assert!(!text.contains(SECRET) && text.contains("***"), "{path}: {text}");
        }
    }
    for path in ["routes", "services", "consumers", "ssls", "rejected", "plugin_metadatas", "global_rules"] {
        let (_, text) = shown(gateway.control, &format!("/v1/{path}"), "");
        assert!(!text.contains(SECRET), "{path}: {text}");
    }
    assert!(!gateway.error_log().contains(SECRET), "{}", gateway.error_log());
}

fn admin(gateway: &Gateway, path: &str, key: &str) -> (u16, String) {
    shown(gateway.admin, &format!("/apisix/admin/{path}"), key)
}
