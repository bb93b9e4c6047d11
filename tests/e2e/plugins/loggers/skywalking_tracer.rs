//! The tracer for SkyWalking: what reaches the node, and what is reported.

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::{Gateway, Upstream, eventually};

fn gateway(receiver: &Upstream, upstream: &Upstream, rules: &Value) -> Gateway {
    let attributes = format!(
        "plugin_attr:\n  skywalking: {{service_name: gate, service_instance_name: one, endpoint_addr: 'http://{}', report_interval: 1}}\n",
        receiver.address
    );
    let config = YAML_PROVIDER.replace("plugin_attr:\n", &attributes);
    let node = json!({"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}});
    let route = |id: &str, plugins: Value| json!({"id": id, "uri": format!("/{id}"), "plugins": plugins, "upstream": node});
    let routes = json!({"routes": [
        route("traced", json!({"skywalking": {}})), route("rare", json!({"skywalking": {"sample_ratio": 0.00001}})),
        route("status", json!({"skywalking": {}, "proxy-rewrite": {"uri": "/status/503"}})),
    ], "global_rules": rules});
    Gateway::start(&format!("{config}plugins: [skywalking, proxy-rewrite]\n"), Some(&routes.to_string()))
}

/// All segments that came.
fn segments(receiver: &Upstream) -> Vec<Value> {
    let reports = receiver.seen().into_iter().map(|seen| seen.text());
    let reports = reports.filter(|text| text.starts_with("POST /v3/segments "));
    let lists =
        reports.map(|text| text.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default());
    lists.flat_map(|list| serde_json::from_str::<Vec<Value>>(&list).expect("a list")).collect()
}

fn sw8(upstream: &Upstream) -> String {
    let text = upstream.take()[0].text();
    let line = text.lines().find_map(|line| line.strip_prefix("sw8: ").map(str::to_owned));
    line.unwrap_or_default()
}

#[test]
fn segments_and_the_instance_are_reported() {
    let (receiver, upstream) = (Upstream::service(|_| (200, "{}".to_owned())), Upstream::start());
    let gateway = gateway(&receiver, &upstream, &json!([]));
    let get = |path: &str, fields: &str| {
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\n{fields}\r\n");
        gateway.client().request(&request).expect("an answer").status()
    };
    let begun = "sw8: 1-dHJhY2U=-c2Vn-3-dXNlcg==-aW5z-L2E=-MTI3LjAuMC4xOjgw\r\n";
    assert_eq!(get("/traced?x=1", begun), 200);
    let header = sw8(&upstream);
    let parts: Vec<&str> = header.split('-').collect();
    // The trace of the client, a span of this gateway, its service, instance and path.
    assert_eq!(
        (parts[1], parts[3], parts[4], parts[5], parts[6]),
        ("dHJhY2U=", "1", "Z2F0ZQ==", "b25l", "L3RyYWNlZA==")
    );
    eventually("the segment is reported", || segments(&receiver).len() == 1);
    let segment = segments(&receiver).remove(0);
    assert_eq!(
        (&segment["traceId"], &segment["service"], &segment["serviceInstance"]),
        (&json!("trace"), &json!("gate"), &json!("one"))
    );
    let (entry, exit) = (&segment["spans"][0], &segment["spans"][1]);
    assert_eq!(
        (&entry["spanType"], &entry["operationName"], &entry["isError"]),
        (&json!("Entry"), &json!("/traced"), &json!(false))
    );
    assert_eq!(entry["refs"][0]["parentTraceSegmentId"], "seg");
    assert_eq!(entry["refs"][0]["parentSpanId"], 3);
    let tags = json!([{"key": "http.method", "value": "GET"}, {"key": "http.params", "value": "http://h/traced?x=1"},
        {"key": "http.status", "value": "200"}]);
    assert_eq!(entry["tags"], tags);
    assert_eq!(
        (&exit["spanType"], &exit["parentSpanId"], &exit["peer"]),
        (&json!("Exit"), &json!(0), &json!("upstream service"))
    );
    assert_eq!(exit["componentId"], 6002);
    let asked =
        |path: &str| receiver.seen().iter().any(|seen| seen.text().starts_with(&format!("POST {path} ")));
    assert!(asked("/v3/management/reportProperties"));
    eventually("the instance shows itself again", || asked("/v3/management/keepAlive"));

    // A header that no agent writes begins nothing.
    assert_eq!(get("/traced", "sw8: 1-x\r\nSW8: 2\r\n"), 200);
    assert!(sw8(&upstream).starts_with("1-"));
    assert_eq!(get("/status", ""), 503);
    upstream.take();
    assert_eq!(get("/rare", begun), 200);
    assert!(sw8(&upstream).contains("-c2Vn-3-"), "passes on");
    eventually("the others are reported", || segments(&receiver).len() == 3);
    let failed =
        segments(&receiver).into_iter().find(|segment| segment["spans"][0]["operationName"] == "/status");
    let failed = failed.expect("its segment");
    assert_eq!(
        (&failed["spans"][0]["isError"], &failed["spans"][1]["isError"]),
        (&json!(true), &json!(true))
    );
}

#[test]
fn a_global_rule_steps_back_for_the_route() {
    let (receiver, upstream) = (Upstream::service(|_| (200, "{}".to_owned())), Upstream::start());
    let rules = json!([{"id": "1", "plugins": {"skywalking": {}}}]);
    let gateway = gateway(&receiver, &upstream, &rules);
    for path in ["/traced", "/rare"] {
        assert_eq!(gateway.client().get("h", path).expect("an answer").status(), 200);
    }
    eventually("one segment", || segments(&receiver).len() == 1);
    assert_eq!(segments(&receiver)[0]["spans"][0]["operationName"], "/traced");
}
