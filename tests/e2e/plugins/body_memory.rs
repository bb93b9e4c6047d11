//! The memory that bodies take: what is read is counted before it is there.

use std::net::SocketAddr;
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::{assert_done_in_pieces, growth};
use tidegate_testkit::{Client, Gateway, PATIENCE, Upstream};

const MEGABYTE: u64 = 1 << 20;

fn post(gateway: &Gateway, uri: &str, content_type: &str, body: &[u8]) -> (u16, String) {
    let mut client = gateway.client();
    let head = format!(
        "POST {uri} HTTP/1.1\r\nHost: h\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    client.send(head.as_bytes()).expect("sends the head");
    client.send(body).expect("sends the body");
    let answer = client.response().expect("an answer");
    (answer.status(), answer.body_text())
}

fn gateway(upstream: &Upstream, config: &str) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |id: &str, uri: &str, vars: Value, plugins: Value| {
        let mut route = json!({"id": id, "uri": uri, "plugins": plugins, "upstream": target});
        if !vars.is_null() {
            route["vars"] = vars;
        }
        route
    };
    let routes = json!({"routes": [
        route("field", "/field", json!([["post_arg.a", "==", 1.0]]), json!({"key-auth": {}})),
        route("list", "/list", json!([["post_arg.b", "has", "x"]]), json!({"key-auth": {}})),
        route("query", "/query", json!([["graphql_name", "==", "q"]]), json!({"key-auth": {}})),
        route("valid", "/valid", Value::Null, json!({"request-validation": {
            "body_schema": {"type": "object", "properties": {"b": {"type": "array"}}}}})),
        route("new", "/new", Value::Null, json!({"body-transformer": {"request": {"template": "{{b[1]}}"}}})),
        route("quiet", "/quiet", Value::Null, json!({})),
    ]});
    Gateway::start(config, Some(&routes.to_string()))
}

/// `{"a":1,"b":[1,1,...]}`
fn many_values(bytes: usize) -> Vec<u8> {
    let mut body = b"{\"a\":1,\"b\":[1".to_vec();
    body.resize(bytes - 2, b',');
    body.iter_mut().skip(13).step_by(2).for_each(|byte| *byte = b',');
    for at in (12..body.len()).step_by(2) {
        body[at] = b'1';
    }
    if body.last() == Some(&b',') {
        body.pop();
    }
    body.extend_from_slice(b"]}");
    body
}

#[test]
fn twenty_megabytes_of_values_take_little_more() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let body = many_values(20 << 20);
    for (uri, expected, says) in [
        ("/field", 401, "Missing API key"),
        ("/list", 413, ""),
        ("/query", 404, ""),
        ("/valid", 400, "the body takes more than 16777216 bytes of memory when parsed"),
        ("/new", 413, "the body takes more than 16777216 bytes"),
    ] {
        let ((status, answer), grown) = growth(&gateway, || post(&gateway, uri, "application/json", &body));
        println!("20 MB of values at {uri}: +{} MB", grown / MEGABYTE);
        assert_eq!(status, expected, "{uri}: {answer}");
        assert!(answer.contains(says), "{uri}: {answer}");
        assert!(grown < 60 * MEGABYTE, "{uri}: +{} MB", grown / MEGABYTE);
    }
    gateway.wait_for_log(
        "a condition on the request body cannot be evaluated: the body takes more than 16777216 bytes",
    );
    // Warned of is what computes for 20 ms on a worker, as long as that other requests wait.
    assert_done_in_pieces(&gateway);
}

/// What takes too much when it is read is known before any of it is made, and a body that is gathered is not copied for its
/// rest.
#[test]
fn what_is_refused_takes_little_more_than_itself() {
    let upstream = Upstream::start();
    let body = many_values(20 << 20);
    for (uri, expected) in [("/valid", 400), ("/new", 413)] {
        let gateway = gateway(&upstream, YAML_PROVIDER);
        let ((status, _), grown) = growth(&gateway, || post(&gateway, uri, "application/json", &body));
        println!("20 MB of values at {uri}, first of all: +{} MB", grown / MEGABYTE);
        assert_eq!(status, expected, "{uri}");
        assert!(grown < 42 * MEGABYTE, "{uri}: +{} MB", grown / MEGABYTE);
    }
}

/// A filter looks at the body as a route's condition does, also where it is all that asks for it.
#[test]
fn a_filter_sees_the_body() {
    let upstream = Upstream::start();
    let filter = |expression: Value| json!({"fault-injection": {"_meta": {"filter": [expression]}, "abort": {"http_status": 418}}});
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes = json!({"routes": [
        {"id": "field", "uri": "/field", "upstream": target, "plugins": filter(json!(["post_arg.a", "==", "x"]))},
        {"id": "list", "uri": "/list", "upstream": target, "plugins": filter(json!(["post_arg.b", "has", "x"]))},
    ]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    for (uri, padding, expected) in [
        ("/field", 0, 418),
        ("/field", 20_000, 418),
        ("/field", 1 << 20, 418),
        ("/list", 20_000, 200),
        ("/list", 8 << 20, 413),
    ] {
        let list = if uri == "/list" { vec![1; padding / 2] } else { Vec::new() };
        let body = json!({"pad": "y".repeat(padding), "a": "x", "b": list}).to_string();
        let (status, answer) = post(&gateway, uri, "application/json", body.as_bytes());
        assert_eq!(status, expected, "{uri} with {padding}: {answer:.200}");
        let (status, _) = post(&gateway, uri, "text/plain", body.as_bytes());
        assert_eq!(status, 200, "{uri} with {padding}");
    }
}

/// Long texts are not a tree: a body of the same size that can be held is read as before.
#[test]
fn long_texts_are_read() {
    let upstream = Upstream::start();
    // A build that is not optimised writes 15 MB of JSON in a second, and a template has 350 ms for it.
    let attributes = "plugin_attr:\n  serverless: {time_limit_ms: 10000}\n";
    let gateway = gateway(&upstream, &YAML_PROVIDER.replace("plugin_attr:\n", attributes));
    let body = json!({"a": 1, "b": ["x".repeat(15 << 20)]}).to_string();
    for (uri, expected) in [("/field", 401), ("/list", 404), ("/valid", 200), ("/new", 200)] {
        let ((status, answer), grown) =
            growth(&gateway, || post(&gateway, uri, "application/json", body.as_bytes()));
        println!("15 MB of text at {uri}: +{} MB", grown / MEGABYTE);
        assert_eq!(status, expected, "{uri}: {:.200}", answer);
    }
}

fn with_memory(settings: &str) -> String {
    YAML_PROVIDER.replacen("apisix:\n", &format!("apisix:\n  body_memory: {settings}\n"), 1)
}

fn page(gateway: &Gateway) -> String {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text()
}

/// Waits until the page has this line.
fn wait_for_metric(gateway: &Gateway, wanted: impl Fn(&str) -> bool) {
    let started = Instant::now();
    while !page(gateway).lines().any(&wanted) {
        assert!(started.elapsed() < PATIENCE, "never on the page: {}", page(gateway));
        std::thread::yield_now();
    }
}

/// 64 clients at once from 16 addresses post 20 MB each: what does not fit is refused, and nobody else notices.
#[test]
fn beyond_the_budget_requests_are_refused_and_others_served() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, &with_memory("{total: 512m}"));
    let body = many_values(20 << 20);
    let head = format!(
        "POST /valid HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    let start = Barrier::new(65);
    let running = AtomicUsize::new(64);
    let ((statuses, quiet), grown) = growth(&gateway, || {
        std::thread::scope(|scope| {
            let clients: Vec<_> = (0..64_u8)
                .map(|number| {
                    let (body, head, start, running, gateway) = (&body, &head, &start, &running, &gateway);
                    scope.spawn(move || {
                        let from = SocketAddr::from(([127, 0, 1, number / 4 + 1], 0));
                        let mut client = Client::connect_from(from, gateway.http).expect("connects");
                        client.send(head.as_bytes()).expect("sends the head");
                        start.wait();
                        // Who is refused in the middle may not get rid of the rest.
                        let _ = client.send(body);
                        let status = client.response().map(|answer| answer.status());
                        running.fetch_sub(1, Relaxed);
                        status.unwrap_or(0)
                    })
                })
                .collect();
            start.wait();
            let mut quiet = 0;
            while running.load(Relaxed) > 0 {
                let answer = gateway.client().get("h", "/quiet").expect("an answer");
                assert_eq!(answer.status(), 200);
                quiet += 1;
            }
            (clients.into_iter().map(|client| client.join().expect("ends")).collect::<Vec<_>>(), quiet)
        })
    });
    let count = |wanted: u16| statuses.iter().filter(|status| **status == wanted).count();
    println!(
        "64 clients: +{} MB, {} checked, {} refused, {} cut; {quiet} quiet requests",
        grown / MEGABYTE,
        count(400),
        count(503),
        count(0)
    );
    assert_eq!(count(400) + count(503) + count(0), 64, "{statuses:?}");
    assert!(count(400) > 0 && count(503) > 0, "{statuses:?}");
    assert!(quiet > 0);
    assert!(grown < 1_200 * MEGABYTE, "+{} MB", grown / MEGABYTE);
    gateway.wait_for_log("the memory for bodies (apisix.body_memory.total, 536870912 bytes)");
    wait_for_metric(&gateway, |line| line == "apisix_body_memory_bytes{state=\"held\"} 0");
    let refused = |line: &str| {
        line.starts_with("apisix_body_memory_refused_total{reason=\"total\"}") && !line.ends_with(" 0")
    };
    wait_for_metric(&gateway, refused);
}

/// One client gets an eighth: with 8 MB a body of 2 MB is too much, and one of 600 KB is not.
#[test]
fn one_client_gets_a_part() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, &with_memory("{total: 8m}"));
    let body = |bytes: usize| json!({"a": "x".repeat(bytes)}).to_string();
    let (small, large) = (body(400 << 10), body(2 << 20));
    assert_eq!(post(&gateway, "/valid", "application/json", small.as_bytes()).0, 200);
    assert_eq!(post(&gateway, "/valid", "application/json", large.as_bytes()).0, 503);
    assert_eq!(post(&gateway, "/valid", "application/json", small.as_bytes()).0, 200);
    gateway.wait_for_log("bytes left for client 127.0.0.1");
}

/// Whoever has something in memory keeps sending, or gets 408 and gives it back.
#[test]
fn who_holds_memory_has_to_send() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, &with_memory("{min_rate: 10k, rate_window: 300ms}"));
    let head = "POST /valid HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n";
    for trickle in [false, true] {
        let mut client = gateway.client();
        client.send(head.as_bytes()).expect("sends the head");
        client.send(&vec![b' '; 40_000]).expect("sends some");
        let started = Instant::now();
        while trickle && client.send(b" ").is_ok() && started.elapsed() < Duration::from_millis(900) {
            std::thread::sleep(Duration::from_millis(50));
        }
        assert_eq!(client.response().expect("an answer").status(), 408, "trickles: {trickle}");
        assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
    }
    // A body of which nothing is held may take its time.
    let mut client = gateway.client();
    client.send(b"POST /valid HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"b\"").expect("sends");
    assert!(client.stays_silent(Duration::from_millis(500)));
    client.send(b":[]}").expect("sends");
    wait_for_metric(&gateway, |line| line == "apisix_body_memory_refused_total{reason=\"slow\"} 2");
}
