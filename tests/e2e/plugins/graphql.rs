//! Plugins for GraphQL: what they make of requests, and what they keep of answers.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream};

fn gateway(upstream: &Upstream, plugins: &Value) -> Gateway {
    let target = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let routes = json!({"routes": [{"id": "1", "uri": "/*", "plugins": plugins, "upstream": target}]});
    Gateway::start(YAML_PROVIDER, Some(&routes.to_string()))
}

fn send(gateway: &Gateway, method: &str, target: &str, fields: &str, body: &str) -> Message {
    let length = body.len();
    let text =
        format!("{method} {target} HTTP/1.1\r\nHost: h\r\n{fields}Content-Length: {length}\r\n\r\n{body}");
    let mut client = gateway.client();
    client.send(text.as_bytes()).expect("sends");
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {target}: {error}"))
}

const QUERY: &str =
    "query Q($name: String!, $list: [Int]) { persons(name: $name, list: $list) { id } } query R { r }";

#[test]
fn degraphql_asks_for_the_client() {
    let upstream = Upstream::start();
    let conf = json!({"query": QUERY, "operation_name": "Q", "variables": ["name", "list"], "max_req_body_size": 100});
    let gateway = gateway(&upstream, &json!({"degraphql": conf, "proxy-rewrite": {"uri": "/graphql"}}));
    let body = r#"{"name":"Niek","other":1,"list":[1,2]}"#;
    assert_eq!(send(&gateway, "POST", "/x?a=1", "Content-Type: text/plain\r\n", body).status(), 200);
    let seen = upstream.take().remove(0).message;
    let question: Value = serde_json::from_str(&seen.body_text()).expect("JSON");
    assert_eq!(
        question,
        json!({"operationName": "Q", "query": QUERY, "variables": {"name": "Niek", "list": [1, 2]}})
    );
    assert_eq!((seen.target(), seen.header("Content-Type")), ("/graphql?a=1", Some("application/json")));

    assert_eq!(send(&gateway, "GET", "/x?name=Ni%20ek&list=1&list=2&a=1", "", "").status(), 200);
    let seen = upstream.take().remove(0).message;
    let target = seen.target();
    assert!(target.starts_with("/graphql?operationName=Q&query=query%20Q%28%24name"), "{target}");
    let variables = "&variables=%7B%22list%22%3A%5B%221%22%2C%222%22%5D%2C%22name%22%3A%22Ni%20ek%22%7D";
    assert!(target.ends_with(variables), "{target}");

    let long = format!(r#"{{"name":"{}"}}"#, "x".repeat(100));
    for (method, fields, body, status) in [
        ("POST", "", "", 400),
        ("POST", "", "\"AA\"", 400),
        ("POST", "", "{", 400),
        ("POST", "Content-Encoding: gzip\r\n", body, 400),
        ("POST", "", long.as_str(), 503),
        ("PUT", "", body, 405),
        ("HEAD", "", "", 405),
    ] {
        assert_eq!(send(&gateway, method, "/x", fields, body).status(), status, "{method} {fields}{body}");
    }
    assert!(upstream.take().is_empty());
}

#[test]
fn degraphql_without_variables() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, &json!({"degraphql": {"query": "{ persons { id } }"}}));
    let coded = "Content-Encoding: gzip\r\nContent-Type: a/b\r\n";
    assert_eq!(send(&gateway, "POST", "/x", coded, "anything").status(), 200);
    assert_eq!(send(&gateway, "POST", "/x", "", "").status(), 200);
    assert_eq!(send(&gateway, "GET", "/x?a=1", "", "").status(), 200);
    let seen = upstream.take();
    for request in &seen[..2] {
        assert_eq!(request.message.body_text(), r#"{"query":"{ persons { id } }"}"#);
        assert_eq!(request.message.header("Content-Encoding"), None);
    }
    assert_eq!(seen[2].message.target(), "/x?query=%7B%20persons%20%7B%20id%20%7D%20%7D");
}
