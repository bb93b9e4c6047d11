//! Requests that come back through a port of ours for streams end like those that come back directly.

use serde_json::json;
use tidegate_testkit::{Client, Upstream, eventually};

use super::{Ports, connect, echoing, exchange, is_closed, start};

#[test]
fn requests_through_a_stream_port_do_not_go_round() {
    let upstream = Upstream::start();
    let node = |address: &str| json!({"type": "roundrobin", "nodes": {address: 1}});
    let other = node(&upstream.address.to_string());
    let logger = json!({"uri": "http://127.0.0.1:@TCP@/log", "batch_max_size": 1, "inactive_timeout": 1, "max_retry_count": 0});
    let objects = json!({
        "stream_routes": [{"id": "back", "server_port": "@PORT@", "upstream": node("127.0.0.1:@HTTP@")}],
        "routes": [
            {"id": "loop", "uri": "/loop", "upstream": node("127.0.0.1:@TCP@")},
            {"id": "mirror", "uri": "/mirror", "plugins": {"proxy-mirror": {"host": "http://127.0.0.1:@TCP@"}}, "upstream": other},
            {"id": "forward", "uri": "/forward", "plugins": {"forward-auth": {"uri": "http://127.0.0.1:@TCP@/forward"}}, "upstream": other},
            {"id": "log", "uri": "/log", "plugins": {"http-logger": logger}, "upstream": other},
        ],
    });
    let ports = start("", "", &objects.to_string().replace("\"@PORT@\"", "@TCP@"));
    let metric = |start: &str| -> f64 {
        let mut client = Client::connect(ports.gateway.metrics).expect("a connection");
        let page = client.get("m", "/apisix/prometheus/metrics").expect("a page").body_text();
        let line = page.lines().find(|line| line.starts_with(start)).map(str::to_owned);
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or_default()
    };
    let requests = || metric("apisix_http_requests_total ");
    let dropped = || metric("apisix_log_entries_dropped_total{plugin=\"http-logger\",reason=\"loop\"}");
    for (path, status, most) in
        [("/loop", 508, 12.0), ("/forward", 508, 3.0), ("/mirror", 200, 2.0), ("/log", 200, 2.0)]
    {
        let (before, lost) = (requests(), dropped());
        assert_eq!(ports.gateway.client().get("h", path).expect("an answer").status(), status, "{path}");
        match path {
            "/mirror" => ports.gateway.wait_for_log("this gateway itself, is not sent"),
            "/log" => drop(eventually("the delivery is not delivered", || dropped() > lost)),
            _ => {}
        }
        assert!(requests() - before <= most, "{path}: {} requests of one", requests() - before);
    }
}

/// An upstream of streams may ask for TLS: no request goes there in clear text.
#[test]
fn requests_do_not_go_to_upstreams_of_streams() {
    let upstream = Upstream::start();
    let node = json!({upstream.address.to_string(): 1});
    let schemes = ["tls", "tcp", "udp"];
    let routes: Vec<serde_json::Value> = schemes
        .iter()
        .map(|scheme| json!({"id": scheme, "uri": format!("/{scheme}"), "upstream_id": scheme}))
        .chain([json!({"id": "inline", "uri": "/inline", "upstream": {"scheme": "tls", "nodes": node}})])
        .collect();
    let upstreams: Vec<serde_json::Value> = schemes
        .iter()
        .map(|scheme| json!({"id": scheme, "scheme": scheme, "nodes": node, "type": "roundrobin"}))
        .collect();
    let ports = start("", "", &json!({"routes": routes, "upstreams": upstreams}).to_string());
    for path in schemes.iter().chain(&["inline"]) {
        let answer = ports.gateway.client().get("h", &format!("/{path}")).expect("an answer");
        assert_eq!(answer.status(), 500, "{path}");
    }
    assert!(upstream.seen().is_empty());
    ports.gateway.wait_for_log("upstream upstreams/tls has a scheme for sessions of streams");
}

/// Open files of the gateway.
fn files(ports: &Ports) -> usize {
    let pid = ports.gateway.pid().expect("it runs");
    std::fs::read_dir(format!("/proc/{pid}/fd")).expect("its files").count()
}

#[test]
fn a_circle_of_stream_routes_ends() {
    let objects = json!({"stream_routes": [
        {"id": "there", "server_port": "@TCP", "upstream": {"nodes": {"127.0.0.1:@OTHER@": 1}}},
        {"id": "back", "server_port": "@OTHER", "upstream": {"nodes": {"127.0.0.1:@TCP@": 1}}},
    ]});
    let objects = objects.to_string().replace("\"@TCP\"", "@TCP@").replace("\"@OTHER\"", "@OTHER@");
    let ports = start("", "", &objects);
    let before = files(&ports);
    let mut stream = connect(ports.tcp);
    assert!(is_closed(&mut stream));
    ports
        .gateway
        .wait_for_log("has come through 8 stream ports of this gateway, whose routes lead in a circle");
    drop(stream);
    // Each worker keeps an epoll instance.
    eventually("all are closed", || files(&ports) <= before + 4);
}

/// Such as TLS that one port passes through by its name, and another one ends.
#[test]
fn a_chain_of_stream_routes_is_served() {
    let echo = echoing();
    let objects = json!({"stream_routes": [
        {"id": "first", "server_port": "@TCP", "upstream": {"nodes": {"127.0.0.1:@OTHER@": 1}}},
        {"id": "second", "server_port": "@OTHER", "upstream": {"nodes": {echo.to_string(): 1}}},
    ]});
    let objects = objects.to_string().replace("\"@TCP\"", "@TCP@").replace("\"@OTHER\"", "@OTHER@");
    let ports = start("", "", &objects);
    for _ in 0..12 {
        assert_eq!(exchange(ports.tcp, "through both"), "through both");
    }
}
