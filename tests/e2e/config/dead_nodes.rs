//! An upstream with very many nodes that are all dead: a request gives up after some, whatever the balancer.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Client, Gateway};

#[test]
fn a_request_tries_a_bounded_number_of_nodes() {
    // Nobody listens on port 1 of these addresses of the loopback.
    let nodes: Vec<Value> = (1..=2_000u32)
        .map(|node| json!({"host": format!("127.9.{}.{}", node >> 8, node & 255), "port": 1, "weight": 1}))
        .collect();
    let routes: Vec<Value> = ["roundrobin", "chash", "least_conn"]
        .map(|kind| json!({"id": kind, "uri": format!("/{kind}"), "upstream": {"type": kind, "key": "uri", "nodes": nodes}}))
        .to_vec();
    let gateway = Gateway::start(YAML_PROVIDER, Some(&json!({ "routes": routes }).to_string()));
    for kind in ["roundrobin", "chash", "least_conn"] {
        let before = gateway.error_log().len();
        let answer = gateway.client().get("h", &format!("/{kind}")).expect("an answer");
        assert_eq!(answer.status(), 502, "{kind}");
        let tried = answer.header("X-APISIX-Upstream-Status").expect("a status").split(',').count();
        assert_eq!(tried, 64, "{kind}");
        assert!(answer.head.len() < 1_000, "{kind}: a head of {} bytes", answer.head.len());
        let logged = gateway.error_log().len() - before;
        assert!(logged < 32 << 10, "{kind}: {logged} bytes of log");
    }
}

#[test]
fn a_large_number_of_retries_is_bounded_and_warned_of() {
    let nodes: Vec<Value> = (1..=2_000u32)
        .map(|node| json!({"host": format!("127.9.{}.{}", node >> 8, node & 255), "port": 1, "weight": 1}))
        .collect();
    let gateway = Gateway::start(EMBEDDED, None);
    let mut admin = Client::connect(gateway.admin).expect("the admin port");
    for kind in ["roundrobin", "chash", "least_conn"] {
        let mut upstream = json!({"type": kind, "nodes": nodes, "retries": 1_000_000});
        if kind == "chash" {
            upstream["key"] = json!("uri");
        }
        let route = json!({"uri": format!("/{kind}"), "upstream": upstream}).to_string();
        let length = route.len();
        let written = admin
            .request(&format!(
                "PUT /apisix/admin/routes/{kind} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\nContent-Length: {length}\r\n\r\n{route}"
            ))
            .expect("an answer");
        let warning = written.header("X-Tidegate-Warning").unwrap_or_default();
        assert_eq!((written.status(), warning), (201, "retries 1000000 counts as 255"));
        let answer = gateway.client().get("h", &format!("/{kind}")).expect("an answer");
        let tried = answer.header("X-APISIX-Upstream-Status").expect("a status").split(',').count();
        assert_eq!((answer.status(), tried), (502, 256), "{kind}");
    }
}
