//! What config.yaml may say, and what upstreams may ask for.

use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Consul, Gateway};

use super::{control, gateway, get, node, route, wait_for};

#[test]
fn a_bad_registry_stops_the_start_with_its_name() {
    for (conf, reason) in [
        ("  consul: {weight: 1}", "invalid discovery consul configuration: property \"servers\" is required"),
        ("  nacos: {host: [\"127.0.0.1:8848\"]}", "invalid discovery nacos configuration: property \"host\""),
        ("  consul: {servers: [\"http://127.0.0.1:8500/\"]}", "discovery.consul.servers"),
        ("  dns: {servers: [\"localhost\"]}", "discovery.dns.servers: localhost"),
        ("  zookeeper: {}", "unknown registry discovery.zookeeper; expected one of: dns, consul"),
    ] {
        let mut gateway = Gateway::start_unready(&format!("{EMBEDDED}discovery:\n{conf}\n"), None);
        gateway.process.wait_for_output(reason);
        assert!(!gateway.process.wait_for_exit().success(), "{}", gateway.process.output());
    }
}

#[test]
fn a_registry_that_is_not_configured_has_no_nodes() {
    let gateway = gateway("  consul: {servers: [\"http://127.0.0.1:1\"]}");
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"nacos""#);
    assert_eq!(get(&gateway, "/web").0, 503);
    let start = std::time::Instant::now();
    while !gateway.error_log().contains("config.yaml has no discovery.nacos") {
        assert!(start.elapsed() < tidegate_testkit::PATIENCE, "{}", gateway.error_log());
    }
    assert_eq!(control(&gateway, "/v1/discovery/nacos/dump").0, 404);
    assert_eq!(control(&gateway, "/v1/discovery/consul/dump").0, 200);
}

/// Routes reach an upstream in several ways; all of them follow its nodes.
#[test]
fn whatever_uses_an_upstream_follows_its_nodes() {
    let consul = Consul::start();
    let (a, b) = (node("a"), node("b"));
    consul.register("web", "web-1", "127.0.0.1", a.address.port());
    let gateway = gateway(&format!("  consul: {{servers: [\"{}\"]}}", consul.url()));
    let discovered = r#"{"type":"roundrobin","service_name":"web","discovery_type":"consul"}"#;
    let split = r#"{"traffic-split":{"rules":[{"weighted_upstreams":[{"upstream_id":"u"}]}]}}"#;
    for (path, body) in [
        ("upstreams/u", discovered.to_owned()),
        ("services/by-id", r#"{"upstream_id":"u"}"#.to_owned()),
        ("services/inline", format!(r#"{{"upstream":{discovered}}}"#)),
        ("consumers", r#"{"username":"c","plugins":{"key-auth":{"key":"k"}}}"#.to_owned()),
        ("routes/1", r#"{"uri":"/upstream","upstream_id":"u"}"#.to_owned()),
        ("routes/2", r#"{"uri":"/service","service_id":"by-id"}"#.to_owned()),
        ("routes/3", r#"{"uri":"/inline","service_id":"inline"}"#.to_owned()),
        ("routes/4", format!(r#"{{"uri":"/split","plugins":{split},"upstream_id":"u"}}"#)),
        ("routes/5", r#"{"uri":"/key","upstream_id":"u","plugins":{"key-auth":{}}}"#.to_owned()),
    ] {
        let (status, text) = gateway.admin("PUT", &format!("/apisix/admin/{path}"), &body);
        assert!(status < 300, "{path}: {text}");
    }
    let paths = ["/upstream", "/service", "/inline", "/split", "/key?apikey=k"];
    for path in paths {
        wait_for(&gateway, path, &["a"]);
    }
    consul.register("web", "web-2", "127.0.0.1", b.address.port());
    consul.deregister("web-1");
    for path in paths {
        wait_for(&gateway, path, &["b"]);
    }
    consul.deregister("web-2");
    for path in paths {
        wait_for(&gateway, path, &["503"]);
    }
}
