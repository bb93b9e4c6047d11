//! Loggly: RFC 5424 over UDP, and its bulk endpoint.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, Gateway};
use tidegate_testkit::{Datagrams, Upstream};

use super::{Logged, bodies, only, parsed, receiver};

/// Priority, structured data and entry of a message.
fn parts(message: &str) -> (&str, &str, Value) {
    let fields: Vec<&str> = message.splitn(7, ' ').collect();
    let [priority, time, "a.test", "apisix", process, "-", rest] = fields[..] else {
        panic!("{message}");
    };
    assert!(time.ends_with('Z') && process.parse::<u32>().is_ok(), "{message}");
    let (data, entry) = rest.split_once("] ").expect("structured data");
    (priority, data, parsed(entry))
}

#[test]
fn messages_over_udp() {
    let receiver = Datagrams::start();
    let conf = json!({
        "customer_token": "token-1", "tags": ["abc", "d\"f"], "severity_map": {"404": "alert", "500": "ERR"},
        "include_req_body": true, "include_resp_body": true,
    });
    let metadata = json!({"host": "127.0.0.1", "port": receiver.address.port()});
    let logged = Logged::start("loggly", conf, metadata);
    for (path, status, priority) in
        [("/x", 200, "<14>1"), ("/status/404", 404, "<9>1"), ("/status/500", 500, "<11>1")]
    {
        assert_eq!(logged.post(path, "", "question"), status);
        let message = receiver.receive();
        let (found, data, entry) = parts(&message);
        assert_eq!((found, data), (priority, r#"[token-1@41058 tag="abc" tag="d\"f""#), "{message}");
        assert_eq!((&entry["response"]["status"], &entry["route_id"]), (&json!(status), &json!("r1")));
        assert_eq!(entry["request"]["body"], "question");
        if status == 200 {
            let body = entry["response"]["body"].as_str().expect("a text");
            assert!(body.ends_with("question"), "the upstream echoes it: {body}");
        }
    }
}

#[test]
fn an_entry_that_fits_in_no_datagram_is_passed_over() {
    let receiver = Datagrams::start();
    let conf = json!({
        "customer_token": "t", "include_req_body": true, "batch_max_size": 2,
        "log_format": {"uri": "$uri", "body": "$request_body"},
    });
    let metadata = json!({"host": "127.0.0.1", "port": receiver.address.port()});
    let logged = Logged::start("loggly", conf, metadata);
    logged.post("/long", "", &"x".repeat(70_000));
    logged.post("/short", "", "x");
    let message = receiver.receive();
    let (_, _, entry) = parts(&message);
    assert_eq!((&entry["uri"], &entry["body"]), (&json!("/short"), &json!("x")));
    logged.gateway.wait_for_log("fits in no datagram, dropped");
}

#[test]
fn lines_for_the_bulk_endpoint() {
    let sink = receiver();
    let conf = json!({
        "customer_token": "TOKEN", "tags": ["a", "b"], "batch_max_size": 2, "inactive_timeout": 60,
    });
    let metadata = json!({
        "host": format!("{}/loggly", sink.address), "protocol": "http", "log_format": {"uri": "$uri"},
    });
    let logged = Logged::start("loggly", conf, metadata);
    logged.get("/1");
    logged.get("/2");
    let message = only(&sink);
    assert_eq!(message.start_line, "POST /loggly/bulk/TOKEN/tag/bulk HTTP/1.1");
    assert_eq!(message.header("X-LOGGLY-TAG"), Some("a,b"));
    assert_eq!(message.header("Content-Type"), Some("application/json"));
    let body = message.body_text();
    let uris: Vec<Value> = body.split('\n').map(|line| parsed(line)["uri"].clone()).collect();
    assert_eq!(uris, ["/1", "/2"]);
}

#[test]
fn a_refused_batch_is_sent_again() {
    let turn = std::sync::atomic::AtomicUsize::new(0);
    let sink = Upstream::service(move |_| match turn.fetch_add(1, std::sync::atomic::Ordering::SeqCst) {
        0 => (503, r#"{"response":"no"}"#.to_owned()),
        _ => (200, String::new()),
    });
    let conf = json!({"customer_token": "T", "max_retry_count": 1, "retry_delay": 0});
    let metadata = json!({"host": super::url(&sink), "protocol": "https", "log_format": {"uri": "$uri"}});
    let logged = Logged::start("loggly", conf, metadata);
    logged.get("/1");
    let bodies = bodies(&sink.wait_for(2));
    assert_eq!(bodies[0], bodies[1]);
    logged.gateway.wait_for_log(
        "failed to send log to loggly, http status code: 503 response body: {\"response\":\"no\"}",
    );
}

/// What leads nowhere is refused when it is written, in words that do not hold the token.
#[test]
fn a_receiver_that_cannot_be_is_refused() {
    let gateway = Gateway::start(EMBEDDED, None);
    let route = json!({"uri": "/a", "plugins": {"loggly": {"customer_token": "SECRET-TOKEN"}}});
    let (status, text) = gateway.admin("PUT", "/apisix/admin/routes/1", &route.to_string());
    assert_eq!(status, 201, "{text}");
    for (metadata, reason) in [
        (json!({"host": "", "port": 1}), "property \\\"host\\\" is empty"),
        (
            json!({"host": "http://127.0.0.1:1/a b", "protocol": "http"}),
            "it contains a space or a control character",
        ),
        (json!({"host": "127.0.0.1", "port": 70_000}), "port"),
    ] {
        let (status, text) =
            gateway.admin("PUT", "/apisix/admin/plugin_metadata/loggly", &metadata.to_string());
        assert!(
            status == 400 && text.contains(reason) && !text.contains("SECRET"),
            "{metadata}: {status} {text}"
        );
    }
}
