//! DogStatsD: metrics of requests, in datagrams.

use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Datagrams, Gateway};

use super::{Logged, with};

fn start(agent: &Datagrams, conf: Value, metadata: Value) -> Logged {
    let metadata = with(json!({"host": "127.0.0.1", "port": agent.address.port()}), metadata);
    Logged::start("datadog", conf, metadata)
}

/// Name, value, type and tags of a line.
fn metric(line: &str) -> (&str, f64, &str, &str) {
    let (name, rest) = line.split_once(':').expect("a value");
    let parts: Vec<&str> = rest.splitn(3, '|').collect();
    let [value, kind, tags] = parts[..] else { panic!("{line}") };
    (name, value.parse().expect("a number"), kind, tags)
}

const METRICS: [(&str, &str); 6] = [
    ("request.counter", "c"),
    ("request.latency", "h"),
    ("upstream.latency", "h"),
    ("apisix.latency", "h"),
    ("ingress.size", "ms"),
    ("egress.size", "ms"),
];

#[test]
fn metrics_of_a_request_are_a_datagram() {
    let agent = Datagrams::start();
    let conf = json!({"include_path": true, "include_method": true, "constant_tags": ["team:a"]});
    let logged = start(&agent, conf, json!({}));
    logged.get("/status/404");
    let datagram = agent.receive();
    let lines: Vec<_> = datagram.lines().map(metric).collect();
    let expected: Vec<_> = METRICS.iter().map(|(name, kind)| (format!("apisix.{name}"), *kind)).collect();
    let found: Vec<_> = lines.iter().map(|(name, _, kind, _)| ((*name).to_owned(), *kind)).collect();
    assert_eq!(found, expected);
    for (_, _, _, tags) in &lines {
        assert_eq!(
            *tags,
            "#source:apisix,team:a,route_name:route-1,path:/*,method:GET,service_name:service-1,\
             balancer_ip:127.0.0.1,response_status:404,response_status_class:4xx,scheme:http"
        );
    }
    let [counter, total, upstream, gateway, ingress, egress] = lines[..] else { panic!("{datagram}") };
    assert_eq!(counter.1, 1.0);
    assert!((total.1 - upstream.1 - gateway.1).abs() < 0.01, "{datagram}");
    assert!(ingress.1 > 30.0 && egress.1 > 50.0, "{datagram}");
}

#[test]
fn ids_and_another_namespace() {
    let agent = Datagrams::start();
    let metadata = json!({"namespace": "", "constant_tags": []});
    let logged = start(&agent, json!({"prefer_name": false, "batch_max_size": 2}), metadata);
    logged.get("/");
    logged.get("/");
    for datagram in [agent.receive(), agent.receive()] {
        let (name, _, _, tags) = metric(datagram.lines().next().expect("a line"));
        assert_eq!(name, "request.counter");
        assert!(tags.starts_with("#route_name:r1,service_name:s1,balancer_ip:"), "{tags}");
    }
}

/// Batches are sent when they are full, when nothing more comes, or when they are old; and are tried again.
#[test]
fn batches_of_metrics() {
    for (size, idle, oldest) in [(2, 600, 600), (1000, 1, 600), (1000, 600, 1)] {
        let agent = Datagrams::start();
        let conf = json!({"batch_max_size": size, "inactive_timeout": idle, "buffer_duration": oldest});
        let logged = start(&agent, conf, json!({}));
        logged.get("/");
        logged.get("/");
        assert!(agent.receive().starts_with("apisix.request.counter:1|c"));
    }
    // The system refuses to send there.
    let conf = json!({"name": "own", "max_retry_count": 2, "retry_delay": 0});
    let logged = Logged::start("datadog", conf, json!({"host": "255.255.255.255", "port": 8125}));
    logged.get("/");
    logged.gateway.wait_for_log("Batch Processor[own] exceeded the max_retry_count[3] dropping the entries");
}

#[test]
fn metrics_with_long_tags_are_datagrams_of_their_own() {
    let agent = Datagrams::start();
    let tags: Vec<String> = (0..10).map(|at| format!("a{at}{}", "x".repeat(190))).collect();
    let logged = start(&agent, json!({"constant_tags": tags}), json!({}));
    logged.get("/");
    for (name, kind) in METRICS {
        let datagram = agent.receive();
        let (found, _, of, tags) = metric(&datagram);
        assert_eq!((found, of), (format!("apisix.{name}").as_str(), kind));
        assert!(tags.len() > 1900, "{tags}");
    }
}

#[test]
fn what_is_no_tag_is_refused() {
    let gateway = Gateway::start(EMBEDDED, None);
    let put = |path: &str, object: &Value| {
        gateway.admin("PUT", &format!("/apisix/admin/{path}"), &object.to_string()).0
    };
    for (tag, status) in
        [("env:test", 201), ("e1_.:/-x", 200), ("1env", 400), ("env:", 400), ("a b", 400), ("", 400)]
    {
        let conf = json!({"constant_tags": [tag]});
        let route =
            json!({"uri": "/x", "plugins": {"datadog": conf}, "upstream": {"nodes": {"127.0.0.1:1": 1}}});
        assert_eq!(put("routes/1", &route), status, "{tag}");
        assert_eq!(put("plugin_metadata/datadog", &conf), status, "{tag}");
    }
    assert_eq!(
        put("routes/1", &json!({"uri": "/x", "plugins": {"datadog": {"constant_tags": ["a".repeat(201)]}}})),
        400
    );
}
