//! Who sees secrets: keys with role admin. Not the Control API, which asks for no key, nor keys with role viewer.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};
use tidegate_testkit::{Client, Message};

const VIEWER_KEY: &str = "test-viewer-key";

/// Stands in each secret below.
const SECRET: &str = "open-sesame";

fn gateway() -> Gateway {
    let keys = format!("role: admin}}, {{name: guest, key: {VIEWER_KEY}, role: viewer}}]");
    Gateway::start(&EMBEDDED.replace("role: admin}]", &keys), None)
}

fn ask(address: std::net::SocketAddr, path: &str, key: &str) -> Message {
    let mut client = Client::connect(address).expect("connected");
    let key = if key.is_empty() { String::new() } else { format!("X-API-KEY: {key}\r\n") };
    client.request(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n{key}\r\n")).expect("an answer")
}

/// Secrets in every place that one of the two can show.
fn objects() -> Vec<(&'static str, Value)> {
    let secret = |name: &str| format!("{SECRET}-of-{name}");
    let oidc = json!({"client_id": "c", "client_secret": secret("client"), "discovery": "http://127.0.0.1:1/d",
                      "session": {"secret": secret("the-session-0123456789")},
                      "proxy_opts": {"http_proxy": "http://127.0.0.1:1", "http_proxy_authorization": format!("Basic {}", secret("proxy"))}});
    let plugins = json!({"csrf": {"key": secret("csrf")}, "openid-connect": oidc,
                         "http-logger": {"uri": "http://127.0.0.1:1/", "auth_header": secret("logger")},
                         "opa": {"host": format!("http://user:{}@127.0.0.1:1", secret("opa")), "policy": "p"},
                         "forward-auth": {"uri": format!("http://user:{}@127.0.0.1:1/", secret("forward")),
                             "extra_headers": {"X-Api-Key": secret("extra")}},
                         "proxy-rewrite": {"headers": {"set": {"Authorization": secret("set")}, "add": {"X-Token": secret("add")}}}});
    let limit = json!({"count": 9, "time_window": 9, "policy": "redis", "redis_host": "127.0.0.1",
                       "redis_password": secret("redis"), "key": "remote_addr"});
    let nested = json!({"workflow": {"rules": [{"actions": [["limit-count", limit]]}]}});
    vec![
        ("upstreams/u", json!({"nodes": {"127.0.0.1:1": 1}, "type": "roundrobin"})),
        ("services/s", json!({"upstream_id": "u", "plugins": plugins})),
        ("routes/r", json!({"uri": "/r", "upstream_id": "u", "plugins": plugins})),
        ("routes/nested", json!({"uri": "/nested", "upstream_id": "u", "plugins": nested})),
        ("plugin_configs/p", json!({"plugins": plugins})),
        ("global_rules/g", json!({"plugins": {"csrf": {"key": secret("global")}}})),
        (
            "consumers/jack",
            json!({"username": "jack", "plugins": {"key-auth": {"key": secret("jack")},
                   "basic-auth": {"username": "jack", "password": secret("basic")}}}),
        ),
        (
            "plugin_metadata/opentelemetry",
            json!({"collector": {"address": "127.0.0.1:1", "request_headers": {"Authorization": secret("collector")}}}),
        ),
        (
            "routes/odd",
            json!({"uri": "/odd", "plugins": {"redirect": {"uri": format!("/x?token={}", secret("argument"))},
                "http-logger": {"uri": "http://127.0.0.1:1/", "authheader": secret("misspelled")}},
                "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}),
        ),
        (
            "routes/fields",
            json!({"uri": "/fields", "plugins": {
                "mocking": {"response_example": "x", "response_headers": {"Authorization": secret("mocked")}},
                "api-breaker": {"break_response_code": 503, "break_response_body": "x",
                    "break_response_headers": [{"key": "X-Api-Key", "value": secret("broken")}]},
                "forward-auth": {"uri": format!("http://127.0.0.1:1/x?key={0}&sig={0}&code={0}", secret("signed"))},
                "openid-connect": {"client_id": "c", "client_secret": secret("client"), "bearer_only": true,
                    "discovery": "http://127.0.0.1:1/d", "authorization_params": {"api_key": secret("parameter")}}},
                "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}),
        ),
        (
            "routes/names",
            json!({"uri": "/names", "plugins": {"proxy-rewrite": {"headers": {"set": {
                "X-Functions-Key": secret("functions"), "Ocp-Apim-Subscription-Key": secret("subscription"),
                "X-Auth": secret("auth"), "X-JWT": secret("jwt"), "X-Any": format!("Bearer {}", secret("bearer"))}}}},
                "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}),
        ),
        (
            "plugin_metadata/http-logger",
            json!({"log_format": {"a": "$host"}, "passwrd": secret("metadata"), "foo": {"token": secret("deeper")}}),
        ),
        // A plugin that has no metadata.
        ("plugin_metadata/key-auth", json!({"keyy": secret("nowhere")})),
        (
            "routes/urls",
            json!({"uri": "/urls", "plugins": {"http-logger": {"uri": format!(
                "http://127.0.0.1:1/x;api_key={}?{}&client_assertion={}&a=1;token={}#access_token={}",
                secret("path"), secret("bare"), secret("assertion"), secret("behind"), secret("fragment"))}},
                "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}),
        ),
        (
            "routes/inside",
            json!({"uri": "/inside", "plugins": {
                "proxy-rewrite": {"headers": {"set": {
                    "X-Json": format!("{{\"password\":\"{}\"}}", secret("json")), "X-A": format!("token={}", secret("pair"))}}},
                "http-logger": {"uri": format!("http://127.0.0.1:1/a;k={}?x=1", secret("parameter")), "log_format": {
                    "apikey": secret("format"), "k": format!("apikey={}", secret("text")), "in": {"token": secret("deep")}}},
                "redirect": {"uri": format!("//u:{}@h.example/x", secret("user"))}},
                "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}}),
        ),
        (
            "plugin_metadata/tcp-logger",
            json!({"log_format": {"apikey": secret("metadata-format"), "k": "$http_apikey"}}),
        ),
        ("secrets/vault/1", json!({"uri": "http://127.0.0.1:1", "prefix": "p", "token": secret("vault")})),
    ]
}

#[test]
fn secrets_are_for_admins() {
    let gateway = gateway();
    let mut holding = Vec::new();
    for (path, body) in objects() {
        let (status, answer) =
            gateway.admin("PUT", &format!("/apisix/admin/{path}?wait=applied"), &body.to_string());
        assert!(matches!(status, 200 | 201), "{path}: {status} {answer}");
        if path == "plugin_metadata/key-auth" {
            gateway.wait_for_log("unknown field key-auth.keyy has no effect");
        }
        if body.to_string().contains(SECRET) {
            holding.push(path);
        }
    }
    for path in holding {
        let collection = path.split('/').next().unwrap_or_default();
        for path in [path, collection] {
            let path = format!("/apisix/admin/{path}");
            let shown = ask(gateway.admin, &path, VIEWER_KEY);
            assert_eq!(shown.status(), 200, "{path}");
            let text = shown.body_text();
            assert!(!text.contains(SECRET) && text.contains("***"), "{path}: {text}");
            let shown = ask(gateway.admin, &path, tidegate_testkit::gateway::ADMIN_KEY).body_text();
            assert!(shown.contains(SECRET), "{path}: {shown}");
        }
    }
    for path in ["routes", "route/r", "route/nested", "services", "service/s"] {
        let shown = ask(gateway.control, &format!("/v1/{path}"), "");
        assert_eq!(shown.status(), 200, "{path}");
        let text = shown.body_text();
        assert!(!text.contains(SECRET) && text.contains("***"), "{path}: {text}");
    }
}

/// The name of a field that is logged is not a secret, nor is where its value comes from.
#[test]
fn variables_of_log_formats_are_seen() {
    let gateway = gateway();
    let format = json!({"apikey": "$http_apikey", "token": "$arg_token", "text": "apikey=$http_apikey"});
    let conf = json!({"uri": "http://127.0.0.1:1/", "log_format": format});
    let route = json!({"uri": "/l", "plugins": {"http-logger": conf},
        "upstream": {"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}}});
    let (status, answer) = gateway.admin("PUT", "/apisix/admin/routes/l?wait=applied", &route.to_string());
    assert_eq!(status, 201, "{answer}");
    let shown: Value =
        serde_json::from_str(&ask(gateway.admin, "/apisix/admin/routes/l", VIEWER_KEY).body_text())
            .expect("JSON");
    assert_eq!(shown["value"]["plugins"]["http-logger"]["log_format"], format);
}
