//! The log collector of SkyWalking.

use serde_json::{Value, json};

use super::{Logged, only, parsed, receiver, url};

#[test]
fn records_with_their_trace() {
    let sink = receiver();
    let conf = json!({
        "endpoint_addr": url(&sink) + "/elsewhere", "service_name": "S", "service_instance_name": "I", "include_req_body": true,
        "batch_max_size": 2,
    });
    let logged = Logged::start("skywalking-logger", conf, Value::Null);
    let trace = "sw8: 1-dHJhY2U=-c2VnbWVudA==-3-U0VSVklDRQ==-SU5TVEFOQ0U=-L2dldA==-dXBzdHJlYW0=\r\n";
    logged.post("/a?b=c", trace, "question");
    logged.post("/b", "sw8: 1-dHJhY2U=\r\n", "");
    let message = only(&sink);
    assert_eq!(message.start_line, "POST /v3/logs HTTP/1.1");
    assert_eq!(message.header("Content-Type"), Some("application/json"));
    let records = parsed(&message.body_text());
    let first = &records[0];
    assert_eq!(first["traceContext"], json!({"traceId": "trace", "traceSegmentId": "segment", "spanId": 3}));
    assert_eq!(
        (&first["service"], &first["serviceInstance"], &first["endpoint"]),
        (&json!("S"), &json!("I"), &json!("/a"))
    );
    let entry = parsed(first["body"]["json"]["json"].as_str().expect("a text"));
    assert_eq!((&entry["request"]["body"], &entry["route_id"]), (&json!("question"), &json!("r1")));
    assert_eq!((records[1].get("traceContext"), &records[1]["endpoint"]), (None, &json!("/b")));
    logged.gateway.wait_for_log("failed to parse trace_context header: 1-dHJhY2U=");
}

#[test]
fn names_of_the_instance() {
    for (name, is_hostname) in [(None, false), (Some("$hostname"), true)] {
        let sink = receiver();
        let mut conf = json!({"endpoint_addr": url(&sink), "log_format": {"a": "$host"}});
        if let Some(name) = name {
            conf["service_instance_name"] = name.into();
        }
        let logged = Logged::start("skywalking-logger", conf, Value::Null);
        logged.get("/");
        let record = parsed(&only(&sink).body_text())[0].clone();
        let instance = record["serviceInstance"].as_str().expect("a text");
        assert_eq!(instance == "APISIX Instance Name", !is_hostname, "{instance}");
        assert!(!instance.is_empty() && !instance.contains('$'), "{instance}");
        assert_eq!(record["service"], "APISIX");
        let entry = parsed(record["body"]["json"]["json"].as_str().expect("a text"));
        assert_eq!(entry, json!({"a": "a.test", "route_id": "r1", "service_id": "s1"}));
    }
}
