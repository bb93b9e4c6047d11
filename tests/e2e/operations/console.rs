//! The console at `/ui/`, and what the Admin API says for it of the process.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, Message};

const KEYS: &str = "    admin_key: [{name: admin, key: test-admin-key, role: admin}]\n";

/// With these keys of `deployment.admin`.
fn start(keys: &str) -> Gateway {
    let mut gateway = Gateway::start(&EMBEDDED.replace(KEYS, &format!("{KEYS}    {keys}\n")), None);
    gateway.process.wait_for_port(gateway.admin);
    gateway
}

fn ask(at: SocketAddr, method: &str, path: &str, fields: &str) -> Message {
    let mut client = Client::connect(at).expect("connected");
    let request = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n{fields}\r\n");
    client.request(&request).expect("a response")
}

fn json_of(message: &Message) -> Value {
    serde_json::from_slice(&message.body).expect("JSON")
}

#[test]
fn it_is_where_the_file_says() {
    let anywhere = "allow_admin: [0.0.0.0/0]\n    ";
    for (keys, listen, expected) in [
        ("", "127.0.0.1", 200),
        ("", "0.0.0.0", 200),
        ("enable_admin_ui: false", "127.0.0.1", 404),
        (anywhere, "0.0.0.0", 404),
        ("allow_admin: [0.0.0.0/0]\n    enable_admin_ui: true", "0.0.0.0", 200),
    ] {
        let admin = format!("admin_listen: {{ip: {listen}, port");
        let config = EMBEDDED.replace(KEYS, &format!("{KEYS}    {keys}\n"));
        let config = config.replace("admin_listen: {ip: 127.0.0.1, port", &admin);
        let mut gateway = Gateway::start(&config, None);
        gateway.process.wait_for_port(gateway.admin);
        for path in ["/ui/", "/ui/routes"] {
            assert_eq!(ask(gateway.admin, "GET", path, "").status(), expected, "{keys:?} {listen} {path}");
        }
        let expected = if expected == 200 { 302 } else { 404 };
        assert_eq!(ask(gateway.admin, "GET", "/ui", "").status(), expected, "{keys:?} {listen}");
        assert_eq!(ask(gateway.http, "GET", "/ui/", "").status(), 404, "not on the ports of clients");
        gateway.process.stop();
    }
}

/// What is refused to the API is refused to the console.
#[test]
fn addresses_that_may_not_ask_get_no_page() {
    let gateway = start("allow_admin: [127.0.0.1]\n    enable_admin_ui: true");
    let from = SocketAddr::from(([127, 0, 0, 9], 0));
    let mut stranger = Client::connect_from(from, gateway.admin).expect("connected");
    assert_eq!(stranger.get("localhost", "/ui/").expect("a response").status(), 403);
    assert_eq!(ask(gateway.admin, "GET", "/ui/", "").status(), 200);
}

#[test]
fn files_are_sent_compressed_cached_and_fenced_in() {
    let gateway = start("");
    let page = ask(gateway.admin, "GET", "/ui/", "");
    assert_eq!((page.status(), page.header("content-type")), (200, Some("text/html; charset=utf-8")));
    for (name, part) in [
        ("content-security-policy", "frame-ancestors 'none'"),
        ("content-security-policy", "script-src 'self';"),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cache-control", "no-cache"),
    ] {
        assert!(page.header(name).is_some_and(|value| value.contains(part)), "{name}: {part}");
    }
    assert!(page.header("access-control-allow-origin").is_none(), "the page is for its own origin");
    let text = page.body_text();
    let scripts = text.split("src=\"").skip(1).filter_map(|rest| rest.split('"').next());
    let scripts: Vec<&str> = scripts.filter(|path| path.ends_with(".js")).collect();
    assert!(!scripts.is_empty(), "{text}");
    for script in scripts {
        let plain = ask(gateway.admin, "GET", script, "");
        let packed = ask(gateway.admin, "GET", script, "Accept-Encoding: gzip, br\r\n");
        assert_eq!((plain.status(), packed.header("content-encoding")), (200, Some("br")), "{script}");
        let mut unpacked = Vec::new();
        std::io::copy(&mut brotli::Decompressor::new(packed.body.as_slice(), 4096), &mut unpacked)
            .expect("brotli");
        assert!(unpacked == plain.body && packed.body.len() < plain.body.len(), "{script}");
        assert!(packed.header("cache-control").is_some_and(|value| value.ends_with("immutable")));
        let tag = packed.header("etag").expect("a tag").to_owned();
        let again = ask(gateway.admin, "GET", script, &format!("If-None-Match: {tag}\r\n"));
        assert_eq!((again.status(), again.body.len()), (304, 0), "{script}");
        let head = ask(gateway.admin, "HEAD", script, "Accept-Encoding: br\r\n");
        assert_eq!((head.status(), head.header("content-length")), (200, packed.header("content-length")));
    }
    assert_eq!(ask(gateway.admin, "POST", "/ui/", "Content-Length: 0\r\n").status(), 405);
}

#[test]
fn paths_that_climb_lead_nowhere() {
    let gateway = start("");
    for path in [
        "/ui/../apisix/admin/routes",
        "/ui/%2e%2e/data/admin.key",
        "/ui/..%2f..%2fconf/config.yaml",
        "/ui/..%5c..%5cconf",
        "/ui/index.html%00.js",
        "/ui/assets/nothing.js",
        "/ui//etc/passwd",
        "/ui/%252e%252e/x",
    ] {
        let response = ask(gateway.admin, "GET", path, "");
        assert_eq!(response.status(), 404, "{path}");
        assert!(!response.body_text().contains("deployment"), "{path}");
    }
    assert_eq!(ask(gateway.admin, "GET", "/uix/", "").status(), 404);
}

#[test]
fn the_admin_api_says_what_the_console_asks() {
    let gateway = start("");
    let key = format!("X-API-KEY: {ADMIN_KEY}\r\n");
    for path in ["mode", "rejected", "healthcheck"] {
        assert_eq!(ask(gateway.admin, "GET", &format!("/apisix/admin/{path}"), "").status(), 401, "{path}");
    }
    let mode = json_of(&ask(gateway.admin, "GET", "/apisix/admin/mode", &key));
    assert_eq!(
        (&mode["provider"], &mode["writable"], &mode["why"]),
        (&json!("embedded"), &json!(true), &Value::Null)
    );
    assert!(mode["node"].as_str().is_some_and(|name| !name.is_empty()) && mode["history"] == true, "{mode}");
    let rejected = json_of(&ask(gateway.admin, "GET", "/apisix/admin/rejected", &key));
    assert_eq!(rejected, json!({"total": 0, "list": []}));
    let checked = json_of(&ask(gateway.admin, "GET", "/apisix/admin/healthcheck", &key));
    assert_eq!(checked, json_of(&ask(gateway.control, "GET", "/v1/healthcheck", "")));
    let role = "role: traditional\n  role_traditional: {config_provider: yaml}";
    let by_api = EMBEDDED.replace("role: traditional\n  role_traditional: {config_provider: embedded}", role);
    let mut gateway = Gateway::start(&by_api, None);
    gateway.process.wait_for_port(gateway.admin);
    let mode = json_of(&ask(gateway.admin, "GET", "/apisix/admin/mode", &key));
    assert_eq!((&mode["provider"], &mode["writable"]), (&json!("api"), &json!(false)), "{mode}");
    assert!(mode["why"].as_str().is_some_and(|why| why.contains("/configs")), "{mode}");
}
