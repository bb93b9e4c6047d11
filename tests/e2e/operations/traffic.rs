//! `GET /apisix/admin/traffic`: requests as they end, for those who may see them, without their credentials.

use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpStream};

use serde_json::{Value, json};
use tidegate_testkit::gateway::{ADMIN_KEY, EMBEDDED};
use tidegate_testkit::{Client, Gateway, PATIENCE, eventually};

fn start() -> Gateway {
    let keys = "role: admin}, {name: guest, key: test-viewer-key, role: viewer}]";
    let mut gateway = Gateway::start(&EMBEDDED.replace("role: admin}]", keys), None);
    gateway.process.wait_for_port(gateway.admin);
    for (name, status) in [("fine", 200), ("broken", 503)] {
        let mocking = json!({"response_status": status, "response_example": "x"});
        let route = json!({"uri": format!("/{name}"), "plugins": {"mocking": mocking}});
        put(&gateway, &format!("routes/{name}"), &route);
    }
    gateway
}

fn put(gateway: &Gateway, path: &str, value: &Value) {
    let (status, answer) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), &value.to_string());
    assert!(status < 300, "{path}: {answer}");
}

/// A stream of events.
pub(super) struct Viewer {
    lines: BufReader<TcpStream>,
    head: String,
}

impl Viewer {
    pub(super) fn begin(admin: SocketAddr, arguments: &str, key: &str) -> Viewer {
        let stream = TcpStream::connect(admin).expect("connected");
        stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
        let request = format!(
            "GET /apisix/admin/traffic?{arguments} HTTP/1.1\r\nHost: localhost\r\nX-API-KEY: {key}\r\nConnection: close\r\n\r\n"
        );
        (&stream).write_all(request.as_bytes()).expect("sent");
        let mut viewer = Viewer { lines: BufReader::new(stream), head: String::new() };
        while !viewer.head.ends_with("\r\n\r\n") {
            assert_ne!(viewer.lines.read_line(&mut viewer.head).expect("a head"), 0, "{}", viewer.head);
        }
        viewer
    }

    pub(super) fn watching(gateway: &Gateway, arguments: &str) -> Viewer {
        let mut viewer = Viewer::begin(gateway.admin, arguments, ADMIN_KEY);
        assert!(viewer.head.starts_with("HTTP/1.1 200 "), "{}", viewer.head);
        assert!(viewer.head.contains("text/event-stream"), "{}", viewer.head);
        // Its first line: from here on it is shown what ends.
        assert_eq!(viewer.until("retry: "), "500");
        viewer
    }

    /// What follows the first line that begins so; others are passed over.
    fn until(&mut self, begin: &str) -> String {
        loop {
            let mut line = String::new();
            assert_ne!(self.lines.read_line(&mut line).expect("a line"), 0, "it ended before {begin}");
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.trim_end().to_owned();
            }
        }
    }

    /// Asks until the request is shown: where a worker would have to wait it leaves one out, and the viewer is told that it missed one.
    pub(super) fn shown(&mut self, gateway: &Gateway, path: &str, fields: &str) -> Value {
        loop {
            ask(gateway, path, fields);
            loop {
                let kind = self.until("event: ");
                let data = self.until("data: ");
                match kind.as_str() {
                    "missed" => break,
                    "request" => {
                        let event: Value = serde_json::from_str(&data).expect("JSON");
                        // What may be a secret is hidden in the query.
                        let bare = |target: &str| target.split('?').next().map(str::to_owned);
                        if event["target"].as_str().and_then(bare) == bare(path) {
                            return event;
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    pub(super) fn event(&mut self, kind: &str) -> Value {
        self.until(&format!("event: {kind}"));
        serde_json::from_str(&self.until("data: ")).expect("JSON")
    }
}

fn ask(gateway: &Gateway, path: &str, fields: &str) {
    let mut client = gateway.client();
    client.request(&format!("GET {path} HTTP/1.1\r\nHost: h.example\r\n{fields}\r\n")).expect("an answer");
}

#[test]
fn requests_are_shown_without_credentials() {
    let gateway = start();
    put(&gateway, "consumers/jo", &json!({"username": "jo", "plugins": {"key-auth": {"key": "jo-secret"}}}));
    let plugins = json!({"key-auth": {"hide_credentials": false}, "mocking": {"response_example": "x"}});
    put(&gateway, "routes/keyed", &json!({"uri": "/keyed", "plugins": plugins}));
    let mut viewer = Viewer::watching(&gateway, "route=keyed");
    let shown = viewer.shown(
        &gateway,
        "/keyed?page=2&access_token=in-query&k=short",
        "apikey: jo-secret\r\nCookie: sid=in-cookie; theme=dark\r\nAuthorization: Bearer in-authorization\r\n\
         X-Note: plain\r\nX-Odd: Bearer in-odd-field\r\n",
    );
    let text = shown.to_string();
    for secret in ["jo-secret", "in-query", "k=short", "in-cookie", "in-authorization", "in-odd-field"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert_eq!(shown["method"], "GET");
    assert_eq!(
        (&shown["route"], &shown["consumer"], &shown["status"]),
        (&json!("keyed"), &json!("jo"), &json!(200))
    );
    assert!(shown["target"].as_str().is_some_and(|target| target.starts_with("/keyed?page=2&")), "{text}");
    assert!(text.contains("\"plain\"") && shown["host"] == "h.example", "{text}");
    assert!(shown["total_ms"].as_f64().is_some_and(|ms| ms > 0.0) && shown["upstream_ms"].is_null());
}

#[test]
fn filters_choose_and_the_failed_are_kept() {
    let gateway = start();
    let mut failed = Viewer::watching(&gateway, "status=5xx");
    let mut fine = Viewer::watching(&gateway, "status=200&route=fine");
    for path in ["/fine?a", "/broken", "/nowhere", "/fine?b"] {
        ask(&gateway, path, "");
    }
    assert_eq!(failed.event("request")["target"], "/broken");
    assert_eq!(
        [fine.event("request"), fine.event("request")].map(|one| one["target"].clone()),
        ["/fine?a", "/fine?b"]
    );
    let mut later = Viewer::watching(&gateway, "");
    assert!(later.event("slowest")["total_ms"].is_number());
    assert_eq!(later.event("failed")["target"], "/broken");
    for wrong in ["status=900", "status=x", "min_ms=fast", "seconds=-1"] {
        let refused = Viewer::begin(gateway.admin, wrong, ADMIN_KEY);
        assert!(refused.head.starts_with("HTTP/1.1 400 "), "{wrong}: {}", refused.head);
    }
}

/// The phases of a request that a node answers are those of the access log.
#[test]
fn phases_of_a_node_are_shown() {
    let gateway = start();
    let node = tidegate_testkit::Upstream::start();
    put(
        &gateway,
        "routes/node",
        &json!({"uri": "/node", "upstream": {"nodes": {node.address.to_string(): 1}}}),
    );
    let mut viewer = Viewer::watching(&gateway, "route=node");
    let shown = viewer.shown(&gateway, "/node", "");
    let attempt = &shown["attempts"][0];
    assert_eq!(attempt["address"], node.address.to_string());
    assert!(attempt["connect_ms"].is_number() && attempt["header_ms"].is_number(), "{shown}");
    assert!(shown["upstream_ms"].as_f64() <= shown["total_ms"].as_f64(), "{shown}");
}

#[test]
fn who_may_not_see_consumers_does_not() {
    let gateway = start();
    put(&gateway, "consumers/jo", &json!({"username": "jo", "plugins": {"key-auth": {"key": "k"}}}));
    let named = json!({"headers": {"set": {"X-Caller": "$consumer_name"}}});
    let plugins = json!({"key-auth": {}, "mocking": {"response_example": "x"}, "proxy-rewrite": named});
    put(&gateway, "routes/keyed", &json!({"uri": "/keyed", "plugins": plugins}));
    let mut viewer = Viewer::begin(gateway.admin, "route=keyed", "test-viewer-key");
    viewer.until("retry: ");
    let shown = viewer.shown(&gateway, "/keyed", "apikey: k\r\nX-Note: plain\r\n");
    assert_eq!((&shown["status"], &shown["consumer"]), (&json!(200), &Value::Null));
    // Nor by what authentication adds to the request, or another plugin writes of it.
    let headers = shown["headers"].to_string().to_lowercase();
    assert!(!headers.contains("consumer") && !headers.contains("\"jo\""), "{headers}");
    assert!(headers.contains("plain"), "{headers}");
    let probing = Viewer::begin(gateway.admin, "consumer=jo", "test-viewer-key");
    assert!(probing.head.starts_with("HTTP/1.1 403 "), "{}", probing.head);
    let stranger = Viewer::begin(gateway.admin, "", "wrong");
    assert!(stranger.head.starts_with("HTTP/1.1 401 "), "{}", stranger.head);
}

#[test]
fn viewers_are_bounded_and_hold_nothing_up() {
    let mut gateway = Gateway::start(
        &EMBEDDED.replace("  admin:\n", "  admin:\n    limits: {connections_per_address: 100}\n"),
        None,
    );
    gateway.process.wait_for_port(gateway.admin);
    put(&gateway, "routes/1", &json!({"uri": "/a", "plugins": {"mocking": {"response_example": "x"}}}));
    let viewers: Vec<Viewer> = (0..20).map(|_| Viewer::watching(&gateway, "")).collect();
    let refused = Viewer::begin(gateway.admin, "", ADMIN_KEY);
    assert!(refused.head.starts_with("HTTP/1.1 503 "), "{}", refused.head);
    // None of them reads; requests go on.
    let mut client = gateway.client();
    for _ in 0..2000 {
        assert_eq!(client.get("h", "/a").expect("an answer").status(), 200);
    }
    drop(viewers);
    eventually("a place", || {
        Viewer::begin(gateway.admin, "seconds=1", ADMIN_KEY).head.starts_with("HTTP/1.1 200 ")
    });
    let mut viewer = Viewer::watching(&gateway, "seconds=1");
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut viewer.lines, &mut rest).expect("it ends");
    // An open stream does not hold the end of the process up.
    let _open = Viewer::watching(&gateway, "seconds=60");
    let mut probe = Client::connect(gateway.admin).expect("connected");
    assert_eq!(probe.get("localhost", "/apisix/admin/mode").expect("a response").status(), 401);
    drop(probe);
    assert!(gateway.process.stop().success());
}
