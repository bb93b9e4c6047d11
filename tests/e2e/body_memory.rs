//! The memory that bodies take: what is read is counted before it is there.

use std::fs;
use std::io::Write;

use serde_json::{Value, json};
use testkit::gateway::YAML_PROVIDER;
use testkit::{Gateway, Upstream};

const MEGABYTE: u64 = 1 << 20;

/// A line of /proc/PID/status, in bytes.
fn status_bytes(gateway: &Gateway, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/status", gateway.process.id())).expect("its status");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.expect("a number") << 10
}

/// How much more memory the gateway had at any moment of this than before.
fn growth<R>(gateway: &Gateway, act: impl FnOnce() -> R) -> (R, u64) {
    let peak = |command: &str| {
        let file = fs::File::options().write(true).open(format!("/proc/{}/clear_refs", gateway.process.id()));
        file.and_then(|mut file| file.write_all(command.as_bytes())).expect("the peak is set back");
    };
    peak("5");
    let before = status_bytes(gateway, "VmRSS");
    let result = act();
    (result, status_bytes(gateway, "VmHWM").saturating_sub(before))
}

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
        ("/valid", 400, "the body takes more than 25165824 bytes of memory when it is read"),
        ("/new", 413, "the body takes more than 25165824 bytes"),
    ] {
        let ((status, answer), grown) = growth(&gateway, || post(&gateway, uri, "application/json", &body));
        println!("20 MB of values at {uri}: +{} MB", grown / MEGABYTE);
        assert_eq!(status, expected, "{uri}: {answer}");
        assert!(answer.contains(says), "{uri}: {answer}");
        assert!(grown < 60 * MEGABYTE, "{uri}: +{} MB", grown / MEGABYTE);
    }
    gateway.wait_for_log("a condition needs more than 25165824 bytes of a request body");
}

/// Long texts are no tree: a body of the same size that can be held is read as before.
#[test]
fn long_texts_are_read() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let body = json!({"a": 1, "b": ["x".repeat(15 << 20)]}).to_string();
    for (uri, expected) in [("/field", 401), ("/list", 404), ("/valid", 200), ("/new", 200)] {
        let ((status, answer), grown) =
            growth(&gateway, || post(&gateway, uri, "application/json", body.as_bytes()));
        println!("15 MB of text at {uri}: +{} MB", grown / MEGABYTE);
        assert_eq!(status, expected, "{uri}: {:.200}", answer);
    }
}
