//! Events for Lago.

use serde_json::{Value, json};
use tidegate_testkit::Upstream;

use super::{Logged, only, parsed, receiver, url, with};

fn conf(sink: &Upstream, more: Value) -> Value {
    let conf = json!({
        "endpoint_addrs": [url(sink)], "token": "KEY", "event_transaction_id": "req_${http_x_id}",
        "event_subscription_id": "sub_${arg_customer}", "event_code": "calls",
    });
    with(conf, more)
}

#[test]
fn events_of_requests() {
    let sink = receiver();
    let properties = json!({"status": "${status}", "fixed": "text", "absent": "$http_absent"});
    let logged = Logged::start(
        "lago",
        conf(&sink, json!({"event_properties": properties, "batch_max_size": 2})),
        Value::Null,
    );
    logged.post("/a?customer=7", "X-Id: 1\r\n", "");
    logged.post("/status/404?customer=8", "X-Id: 2\r\n", "");
    let message = only(&sink);
    assert_eq!(message.start_line, "POST /api/v1/events/batch HTTP/1.1");
    assert_eq!(message.header("Authorization"), Some("Bearer KEY"));
    let events = parsed(&message.body_text())["events"].clone();
    let expected = |id: &str, subscription: &str, status: &str| {
        json!({
            "transaction_id": id, "external_subscription_id": subscription, "code": "calls",
            "properties": {"status": status, "fixed": "text", "absent": "$http_absent"},
        })
    };
    let mut found = events.as_array().expect("a list").clone();
    for event in &mut found {
        let time = event.as_object_mut().and_then(|event| event.remove("timestamp"));
        assert!(time.and_then(|time| time.as_f64()).is_some_and(|time| time > 1e9), "{event}");
    }
    assert_eq!(found, [expected("req_1", "sub_7", "200"), expected("req_2", "sub_8", "404")]);
}

#[test]
fn connections_are_kept_unless_the_configuration_says_otherwise() {
    for keepalive in [true, false] {
        let sink = receiver();
        let conf = conf(&sink, json!({"keepalive": keepalive, "endpoint_uri": "/own"}));
        let logged = Logged::start("lago", conf, Value::Null);
        for round in 1..=10 {
            logged.get("/");
            let seen = sink.wait_for(round);
            assert_eq!(seen[round - 1].message.target(), "/own");
        }
        // Each thread that sends has its own.
        assert_eq!(sink.connections() < 10, keepalive, "{} connections", sink.connections());
    }
}

#[test]
fn why_lago_refuses_is_in_the_log() {
    let sink = Upstream::service(|_| (422, r#"{"code":"validation_errors"}"#.to_owned()));
    let logged = Logged::start("lago", conf(&sink, json!({})), Value::Null);
    logged.get("/");
    logged.gateway.wait_for_log("lago api returned status: 422, body: {\"code\":\"validation_errors\"}");
}
