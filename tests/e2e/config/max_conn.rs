//! `max_conn` of a node: so many requests at a time, all workers together.

use std::time::Instant;

use serde_json::json;
use tidegate_testkit::gateway::{EMBEDDED, Gateway};
use tidegate_testkit::{Behaviour, PATIENCE, Step, Upstream};

/// Answers nothing below `/hold`, until the client goes away.
fn holding() -> Upstream {
    Upstream::with(|request| {
        let step = if request.target().starts_with("/hold") { Step::Silence } else { Step::Echo };
        Behaviour { read_body: true, steps: vec![step] }
    })
}

fn put(gateway: &Gateway, path: &str, nodes: &serde_json::Value) -> (u16, String) {
    let route = json!({"uri": "/*", "upstream": {"type": "roundrobin", "nodes": nodes, "timeout":
        {"connect": 5, "send": 5, "read": 3}}});
    gateway.admin("PUT", path, &route.to_string())
}

#[test]
fn a_full_node_gets_nothing_more() {
    let (held, other) = (holding(), Upstream::start());
    let node = |upstream: &Upstream, limit: u32| json!({"host": "127.0.0.1", "port": upstream.address.port(), "weight": 1, "max_conn": limit});
    let gateway = Gateway::start(EMBEDDED, None);
    let path = "/apisix/admin/routes/1?wait=applied&wait_timeout=60";
    assert_eq!(put(&gateway, path, &json!([node(&held, 1)])).0, 201);

    let mut first = gateway.client();
    first.send(b"GET /hold HTTP/1.1\r\nHost: h\r\n\r\n").expect("sent");
    held.wait_for(1);
    assert_eq!(gateway.client().get("h", "/free").expect("an answer").status(), 502);
    // With a second node the rest goes there, whoever's turn it is.
    assert_eq!(put(&gateway, path, &json!([node(&held, 1), node(&other, 100)])).0, 200);
    for _ in 0..6 {
        assert_eq!(gateway.client().get("h", "/free").expect("an answer").status(), 200);
    }
    assert_eq!((held.seen().len(), other.seen().len()), (1, 6));

    // Once the first has been given up, its place is free again.
    assert_eq!(first.response().expect("an answer").status(), 504);
    let started = Instant::now();
    while held.seen().len() < 2 {
        assert!(started.elapsed() < PATIENCE, "the node is used again");
        assert_eq!(gateway.client().get("h", "/free").expect("an answer").status(), 200);
    }
    let log = gateway.error_log();
    assert!(log.contains("every node is at its max_conn"), "{log}");
    assert!(!log.contains("max_conn has no effect"), "{log}");
}

#[test]
fn the_limit_is_checked_when_it_is_written() {
    let gateway = Gateway::start(EMBEDDED, None);
    for bad in [json!(0), json!("1"), json!(1.5), json!(-1), json!(5_000_000_000_u64)] {
        let nodes = json!([{"host": "127.0.0.1", "port": 80, "weight": 1, "max_conn": bad}]);
        let (status, answer) = put(&gateway, "/apisix/admin/routes/1", &nodes);
        assert_eq!(status, 400, "{bad}: {answer}");
        assert!(answer.contains("max_conn of a node must be an integer of at least 1"), "{answer}");
    }
}
