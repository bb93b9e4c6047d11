//! error-page replaces what the gateway says of failures, and nothing that an upstream says.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Message, Upstream};

fn send(gateway: &Gateway, method: &str, target: &str) -> Message {
    let mut client = gateway.client();
    let request = format!("{method} {target} HTTP/1.1\r\nHost: h\r\nAccept-Encoding: gzip\r\n\r\n");
    client.send(request.as_bytes()).expect("sends");
    client.response_to(method).unwrap_or_else(|error| panic!("{method} {target}: {error}"))
}

fn gateway(upstream: &Upstream, pages: &Value) -> Gateway {
    let route = |id: &str, node: String, plugins: Value| {
        let upstream = json!({"type": "roundrobin", "nodes": {node: 1}});
        json!({"id": id, "uri": format!("/{id}"), "plugins": plugins, "upstream": upstream})
    };
    let abort =
        |status: u16| json!({"fault-injection": {"abort": {"http_status": status, "body": "aborted"}}});
    let node = upstream.address.to_string();
    let mut metadata = pages.clone();
    metadata["id"] = json!("error-page");
    let objects = json!({
        "routes": [
            route("upstream", node.clone(), json!({})),
            route("away", "127.0.0.1:1".to_owned(), json!({})),
            route("500", node.clone(), abort(500)),
            route("503", node.clone(), abort(503)),
            route("403", node, abort(403)),
        ],
        "global_rules": [{"id": "1", "plugins": {"error-page": {}}}],
        "plugin_metadata": [metadata],
        "plugins": [{"name": "error-page"}, {"name": "fault-injection"}],
    });
    Gateway::start(YAML_PROVIDER, Some(&objects.to_string()))
}

fn failing() -> Upstream {
    Upstream::service(|_| (500, "of the upstream".to_owned()))
}

#[test]
fn pages_by_status() {
    let upstream = failing();
    let pages = json!({
        "enable": true,
        "error_404": {"body": "{}", "content_type": "application/json"},
        "error_500": {},
        "error_502": {"body": "away"},
        "error_503": {"body": ""}
    });
    let gateway = gateway(&upstream, &pages);
    let standard = "<html>\n<head><title>500 Internal Server Error</title></head>";
    for (target, status, kind, body) in [
        ("/nothing", 404, "application/json", "{}"),
        ("/away", 502, "text/html", "away"),
        ("/500", 500, "text/html", standard),
        ("/503", 503, "text/plain; charset=utf-8", "aborted"),
        ("/403", 403, "text/plain; charset=utf-8", "aborted"),
    ] {
        let answer = send(&gateway, "GET", target);
        assert_eq!((answer.status(), answer.header("Content-Type")), (status, Some(kind)), "{target}");
        assert!(answer.body_text().starts_with(body), "{target}: {}", answer.body_text());
    }
    let answer = send(&gateway, "GET", "/upstream");
    assert_eq!((answer.status(), answer.body_text().as_str()), (500, "of the upstream"));
    let answer = send(&gateway, "HEAD", "/away");
    assert_eq!((answer.status(), answer.header("Content-Length")), (502, Some("4")));
    assert!(answer.body.is_empty());
}

#[test]
fn nothing_is_replaced_unless_it_is_enabled() {
    let upstream = failing();
    let gateway = gateway(&upstream, &json!({"error_500": {"body": "page"}}));
    let answer = send(&gateway, "GET", "/500");
    assert_eq!((answer.status(), answer.body_text().as_str()), (500, "aborted"));
}
