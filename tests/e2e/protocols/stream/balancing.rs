//! Nodes of sessions: chosen, left and checked as those of requests.

use std::collections::BTreeMap;

use tidegate_testkit::eventually;

use super::{connect, exchange, is_closed, named, read, refusing, start};

#[test]
fn nodes_take_turns_and_dead_ones_are_left() {
    let (a, b, dead) = (named("a"), named("b"), refusing());
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n\
             - {{id: 1, server_port: @TCP@, upstream: {{nodes: {{\"{a}\": 2, \"{b}\": 1, \"127.0.0.1:{dead}\": 1}}}}}}\n\
             - {{id: 2, server_port: @OTHER@, upstream: {{retries: 0, nodes: {{\"127.0.0.1:{dead}\": 1}}}}}}\n"
        ),
    );
    let mut seen = BTreeMap::new();
    for _ in 0..40 {
        *seen.entry(exchange(ports.tcp, "")).or_insert(0) += 1;
    }
    let names: Vec<&str> = seen.keys().map(String::as_str).collect();
    assert_eq!(names, ["a", "b"], "{seen:?}");
    assert!(seen["a"] > seen["b"], "{seen:?}");
    assert!(is_closed(&mut connect(ports.other)));
}

#[test]
fn a_hash_keeps_clients_with_their_node_and_least_conn_evens_out() {
    let (a, b) = (named("a"), named("b"));
    let nodes = format!("{{\"{a}\": 1, \"{b}\": 1}}");
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n\
             - {{id: 1, server_port: @TCP@, upstream: {{type: chash, key: remote_addr, nodes: {nodes}}}}}\n\
             - {{id: 2, server_port: @OTHER@, upstream: {{type: least_conn, nodes: {nodes}}}}}\n"
        ),
    );
    let first = exchange(ports.tcp, "");
    for _ in 0..10 {
        assert_eq!(exchange(ports.tcp, ""), first);
    }
    let mut open = Vec::new();
    let mut counts = BTreeMap::new();
    for _ in 0..6 {
        let mut stream = connect(ports.other);
        *counts.entry(read(&mut stream, 1)).or_insert(0) += 1;
        open.push(stream);
    }
    assert_eq!(counts.values().copied().collect::<Vec<i32>>(), [3, 3], "{counts:?}");
}

#[test]
fn passive_checks_leave_a_dead_node() {
    let (a, dead) = (named("a"), refusing());
    let checks = "{active: {type: tcp, healthy: {interval: 1}, unhealthy: {interval: 1, tcp_failures: 1}}, \
                   passive: {type: tcp, unhealthy: {tcp_failures: 1}}}";
    let ports = start(
        "",
        "",
        &format!(
            "stream_routes:\n- {{id: 1, server_port: @TCP@, upstream: {{checks: {checks}, nodes: {{\"{a}\": 1, \
             \"127.0.0.1:{dead}\": 1}}}}}}\n"
        ),
    );
    for _ in 0..4 {
        assert_eq!(exchange(ports.tcp, ""), "a");
    }
    eventually("the node is known to be dead", || {
        let mut control = tidegate_testkit::Client::connect(ports.gateway.control).expect("a connection");
        let answer = control.get("127.0.0.1", "/v1/healthcheck").expect("an answer").body_text();
        answer.contains("/stream_routes/1") && answer.contains("unhealthy")
    });
}
