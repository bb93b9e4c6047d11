//! What traffic-label sets is what the upstream gets, and shares are as large as their weights say.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream};

fn gateway(upstream: &Upstream, rules: &Value) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route =
        json!({"id": "1", "uri": "/*", "plugins": {"traffic-label": {"rules": rules}}, "upstream": target});
    Gateway::start(YAML_PROVIDER, Some(&json!({"routes": [route]}).to_string()))
}

fn send(gateway: &Gateway, target: &str, fields: &str, body: &str) -> u16 {
    let length = body.len();
    let text = format!("POST {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    gateway.client().request(&text).unwrap_or_else(|error| panic!("{target}: {error}")).status()
}

#[test]
fn shares_by_weight() {
    let upstream = Upstream::start();
    let rules = json!([
        {"match": [["uri", "==", "/shares"]], "actions": [
            {"set_headers": {"X-Label": "a"}, "weight": 3},
            {"set_headers": {"X-Label": "b"}, "weight": 2},
            {"weight": 5}
        ]}
    ]);
    let gateway = gateway(&upstream, &rules);
    let mut client = gateway.client();
    for _ in 0..20 {
        let answer = client.request("GET /shares HTTP/1.1\r\nHost: h\r\n\r\n").expect("an answer");
        assert_eq!(answer.status(), 200);
    }
    let seen = upstream.seen();
    let count = |label: Option<&str>| {
        seen.iter().filter(|request| request.message.header("X-Label") == label).count()
    };
    assert_eq!((count(Some("a")), count(Some("b")), count(None)), (6, 4, 10));
}

#[test]
fn fields_of_the_first_rule_take_the_place_of_the_clients() {
    let upstream = Upstream::start();
    let rules = json!([
        {"match": [["post_arg.role", "==", "admin"]], "actions": [{"set_headers": {"X-Label": "admin"}}]},
        {"match": [["arg_v", "==", "1"]], "actions": [{"set_headers": {"X-Label": "$http_x_from-1", "X-Number": 7}}]}
    ]);
    let gateway = gateway(&upstream, &rules);
    let json = "Content-Type: application/json\r\n";
    let claims = format!("{json}X-Label: claimed\r\nX_Label: claimed\r\nX-From: f\r\n");
    assert_eq!(send(&gateway, "/", &claims, r#"{"role":"admin"}"#), 200);
    assert_eq!(send(&gateway, "/?v=1", &claims, r#"{"role":"user"}"#), 200);
    assert_eq!(send(&gateway, "/", &claims, r#"{"role":"user"}"#), 200);
    assert_eq!(send(&gateway, "/?v=1", json, r#"{"role":"#), 400, "a body that cannot be judged");
    let seen = upstream.seen();
    let labels: Vec<_> = seen.iter().map(|request| request.message.header("X-Label")).collect();
    assert_eq!(labels, [Some("admin"), Some("f-1"), Some("claimed")]);
    assert_eq!(seen[1].message.header("X-Number"), Some("7"));
    let claimed = seen[..2].iter().any(|request| request.text().contains("claimed"));
    assert!(!claimed, "another spelling of a field that was set");
}
