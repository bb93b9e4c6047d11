//! What an active health check sends.

use serde_json::{Value, json};
use tidegate_testkit::gateway::{EMBEDDED, YAML_PROVIDER};
use tidegate_testkit::{Client, Gateway, Upstream, eventually};

/// The `Host` of the first probe to an upstream with these fields.
fn probed_host(fields: &Value) -> String {
    let upstream = Upstream::start();
    let port = upstream.address.port();
    let name = fields.get("name").and_then(Value::as_str).unwrap_or("127.0.0.1");
    let mut object = json!({"type": "roundrobin", "nodes": [{"host": name, "port": port, "weight": 1}],
        "checks": {"active": {"http_path": "/probe", "healthy": {"interval": 1}, "unhealthy": {"interval": 1}}}});
    for (field, value) in fields.as_object().into_iter().flatten() {
        match field.as_str() {
            "name" => {}
            "check_host" => object["checks"]["active"]["host"] = value.clone(),
            _ => object[field] = value.clone(),
        }
    }
    let routes = json!({"routes": [{"id": 1, "uri": "/*", "upstream": object}]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    // The first request wakes the checks.
    let _ = gateway.client().get("client.test", "/");
    let mut count = 1;
    loop {
        let seen = upstream.wait_for(count);
        if let Some(probe) = seen.iter().find(|seen| seen.message.target() == "/probe") {
            return probe.message.header("Host").unwrap_or_default().to_owned();
        }
        count = seen.len() + 1;
    }
}

#[test]
fn probes_name_the_host_that_requests_name() {
    let host = |fields: Value| probed_host(&fields);
    let without_port = |host: String| host.split(':').next().unwrap_or_default().to_owned();
    assert_eq!(without_port(host(json!({}))), "127.0.0.1");
    assert_eq!(without_port(host(json!({"check_host": "check.test"}))), "check.test");
    assert_eq!(without_port(host(json!({"name": "localhost"}))), "localhost");
    assert_eq!(without_port(host(json!({"name": "localhost", "check_host": "check.test"}))), "check.test");
    let node = json!({"name": "localhost", "check_host": "check.test", "pass_host": "node"});
    assert_eq!(without_port(host(node)), "localhost");
    let rewrite = json!({"check_host": "check.test", "pass_host": "rewrite", "upstream_host": "api.test"});
    assert_eq!(without_port(host(rewrite)), "api.test");
}

/// As on `/v1/healthcheck`, and as in APISIX.
#[test]
fn metrics_name_upstreams_by_their_key() {
    let upstream = Upstream::start();
    let object = json!({"nodes": {upstream.address.to_string(): 1},
        "checks": {"active": {"healthy": {"interval": 1}, "unhealthy": {"interval": 1}}}});
    let route = json!({"uri": "/*", "upstream": object}).to_string();
    let yaml = json!({"routes": [{"id": "1", "uri": "/*", "upstream": object}]}).to_string();
    let (with_store, with_file) =
        (Gateway::start(EMBEDDED, None), Gateway::start(YAML_PROVIDER, Some(&yaml)));
    assert_eq!(with_store.admin("PUT", "/apisix/admin/routes/1", &route).0, 201);
    for (gateway, key) in [(with_store, "/apisix/routes/1"), (with_file, "/routes/1")] {
        let wanted = format!("apisix_upstream_status{{name=\"{key}\"");
        eventually(&wanted, || {
            let _ = gateway.client().get("client.test", "/");
            let mut metrics = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
            let page = metrics.get("metrics.test", "/apisix/prometheus/metrics").expect("a page").body_text();
            page.contains(&wanted)
        });
    }
}
