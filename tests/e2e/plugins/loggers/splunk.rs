//! The HTTP Event Collector of Splunk.

use serde_json::{Deserializer, Value, json};
use tidegate_testkit::{Message, Upstream};

use super::{Logged, only, receiver, url};

/// A body is events, one behind the other.
fn events(message: &Message) -> Vec<Value> {
    let body = message.body_text();
    Deserializer::from_str(&body).into_iter().map(|event| event.expect("JSON")).collect()
}

#[test]
fn events_of_requests() {
    let sink = receiver();
    let endpoint = json!({"uri": url(&sink) + "/services/collector", "token": "TOKEN", "channel": "C-1"});
    let conf = json!({
        "endpoint": endpoint, "batch_max_size": 2, "log_format_extra": {"client_ip": "$http_x_from", "latency": "no"},
    });
    let logged = Logged::start("splunk-hec-logging", conf, Value::Null);
    logged.post("/a?b=c", "X-From: me\r\n", "body");
    logged.get("/status/404");
    let message = only(&sink);
    assert_eq!(message.start_line, "POST /services/collector HTTP/1.1");
    assert_eq!(message.header("Authorization"), Some("Splunk TOKEN"));
    assert_eq!(message.header("X-Splunk-Request-Channel"), Some("C-1"));
    let events = events(&message);
    assert_eq!(events.len(), 2);
    let first = &events[0];
    assert_eq!(
        (&first["source"], &first["sourcetype"]),
        (&json!("apache-apisix-splunk-hec-logging"), &json!("_json"))
    );
    assert!(first["time"].as_f64().is_some_and(|time| time > 1e9) && first["host"].is_string(), "{first}");
    let event = &first["event"];
    assert_eq!((&event["request_method"], &event["request_query"]), (&json!("POST"), &json!({"b": "c"})));
    assert_eq!((&event["request_headers"]["x-from"], &event["client_ip"]), (&json!("me"), &json!("me")));
    assert!(
        event["latency"].is_number() && event["upstream"].is_string() && event["response_size"].is_number()
    );
    assert!(event["request_url"].as_str().is_some_and(|url| url.ends_with("/a?b=c")), "{event}");
    assert_eq!(event.get("route_id"), None, "it has ten fields");
    assert_eq!(events[1]["event"]["response_status"], 404);
}

#[test]
fn events_in_a_format() {
    let sink = receiver();
    let conf = json!({"endpoint": {"uri": url(&sink), "token": "TOKEN"}});
    let metadata = json!({"log_format": {"host": "$host"}});
    let logged = Logged::start("splunk-hec-logging", conf, metadata);
    logged.get("/");
    let message = only(&sink);
    assert_eq!(
        (message.start_line.as_str(), message.header("X-Splunk-Request-Channel")),
        ("POST / HTTP/1.1", None)
    );
    assert_eq!(events(&message)[0]["event"], json!({"host": "a.test", "route_id": "r1", "service_id": "s1"}));
}

#[test]
fn why_the_collector_refuses_is_in_the_log() {
    let sink = Upstream::service(|_| (403, r#"{"text":"Invalid token","code":4}"#.to_owned()));
    let conf = json!({"endpoint": {"uri": url(&sink), "token": "TOKEN"}});
    let logged = Logged::start("splunk-hec-logging", conf, Value::Null);
    logged.get("/");
    logged.gateway.wait_for_log("failed to send splunk, Invalid token");
}
