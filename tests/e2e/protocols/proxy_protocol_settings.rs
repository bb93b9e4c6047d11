//! `proxy_protocol` of an upstream, wherever an upstream may stand: taken, kept, changed, refused.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway, YAML_PROVIDER};
use tidegate_testkit::servers;
use tidegate_testkit::{Upstream, free_port};

#[test]
fn every_upstream_may_have_it() {
    let (told, plain) = (free_port(), free_port());
    let _nginx = servers::nginx(&format!(
        "listen 127.0.0.1:{told} proxy_protocol; listen 127.0.0.1:{plain};\n\
         location / {{ return 200 \"told=$proxy_protocol_addr\"; }}"
    ));
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    let put = |path: &str, body: &Value| {
        let (status, answer) = gateway.admin(
            "PUT",
            &format!("/apisix/admin/{path}?wait=applied&wait_timeout=60"),
            &body.to_string(),
        );
        assert!(matches!(status, 200 | 201), "{path}: {answer}");
    };
    let upstream = |version: &str| json!({"type": "roundrobin", "nodes": {format!("127.0.0.1:{told}"): 1}, "proxy_protocol": version});
    let bare = json!({"type": "roundrobin", "nodes": {format!("127.0.0.1:{plain}"): 1}});
    put("upstreams/1", &upstream("v2"));
    put("services/1", &json!({"upstream": upstream("v1")}));
    put("routes/inline", &json!({"uri": "/inline", "upstream": upstream("v1")}));
    put("routes/named", &json!({"uri": "/named", "upstream_id": "1"}));
    put("routes/service", &json!({"uri": "/service", "service_id": "1"}));
    let split = |target: Value| json!({"traffic-split": {"rules": [{"weighted_upstreams": [target]}]}});
    let target = json!({"upstream": upstream("v2"), "weight": 1});
    put("routes/split", &json!({"uri": "/split", "upstream": bare, "plugins": split(target)}));
    let target = json!({"upstream_id": "1", "weight": 1});
    put("routes/split-id", &json!({"uri": "/split-id", "upstream": bare, "plugins": split(target)}));
    put("routes/bare", &json!({"uri": "/bare", "upstream": bare}));
    let mut client = gateway.client();
    let mut get = |path: &str| client.get("h", path).expect("answers").body_text();
    for path in ["/inline", "/named", "/service", "/split", "/split-id"] {
        assert_eq!(get(path), "told=127.0.0.1", "{path}: {}", gateway.error_log());
    }
    assert_eq!(get("/bare"), "told=");
    let (_, kept) = gateway.admin("GET", "/apisix/admin/upstreams/1", "");
    assert!(kept.contains("\"proxy_protocol\":\"v2\""), "{kept}");

    // It goes and comes with a change, on connections that are open too.
    put("routes/bare", &json!({"uri": "/bare", "upstream": upstream("v2")}));
    assert_eq!(get("/bare"), "told=127.0.0.1");
    put("routes/bare", &json!({"uri": "/bare", "upstream": bare}));
    assert_eq!(get("/bare"), "told=");
}

#[test]
fn other_values_are_refused() {
    let mut gateway = Gateway::start(EMBEDDED, None);
    gateway.process.wait_for_port(gateway.admin);
    for bad in [json!("v3"), json!("V1"), json!(""), json!(1), json!(true), json!(null), json!(["v1"])] {
        let upstream = json!({"type": "roundrobin", "nodes": {"127.0.0.1:80": 1}, "proxy_protocol": bad});
        let target = json!({"upstream": upstream, "weight": 1});
        let split = json!({"traffic-split": {"rules": [{"weighted_upstreams": [target]}]}});
        let cases = [
            ("upstreams/1", upstream.clone()),
            ("services/1", json!({"upstream": upstream})),
            ("routes/1", json!({"uri": "/", "upstream": upstream})),
            ("routes/1", json!({"uri": "/", "plugins": split})),
        ];
        for (path, body) in cases {
            let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), &body.to_string());
            assert_eq!(status, 400, "{path} {bad}: {answer}");
            assert!(answer.contains("proxy_protocol"), "{path} {bad}: {answer}");
            let plain = !body.to_string().contains("traffic-split");
            assert!(!plain || answer.contains(r#"must be \"v1\" or \"v2\""#), "{path} {bad}: {answer}");
        }
    }
}

#[test]
fn a_file_with_another_value_keeps_the_rest() {
    let upstream = Upstream::start();
    let node =
        |more: &str| format!("upstream: {{type: roundrobin, nodes: {{\"{}\": 1}}{more}}}", upstream.address);
    let routes = format!(
        "routes:\n- {{id: good, uri: /good, {}}}\n- {{id: bad, uri: /bad, {}}}\n",
        node(""),
        node(", proxy_protocol: v9")
    );
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes));
    assert_eq!(gateway.client().get("h", "/good").expect("answers").status(), 200);
    assert_eq!(gateway.client().get("h", "/bad").expect("answers").status(), 503);
    let log = gateway.error_log();
    assert!(log.contains("proxy_protocol of an upstream must be \"v1\" or \"v2\""), "{log}");
}
