//! What config.yaml may say, and what upstreams may ask for.

use testkit::Gateway;
use testkit::gateway::EMBEDDED;

use super::{control, gateway, get, route};

#[test]
fn a_bad_registry_stops_the_start_with_its_name() {
    for (conf, reason) in [
        ("  consul: {weight: 1}", "invalid discovery consul configuration: property \"servers\" is required"),
        ("  nacos: {host: [\"127.0.0.1:8848\"]}", "invalid discovery nacos configuration: property \"host\""),
        ("  consul: {servers: [\"http://127.0.0.1:8500/\"]}", "discovery.consul.servers"),
        ("  dns: {servers: [\"localhost\"]}", "discovery.dns.servers: localhost"),
        ("  zookeeper: {}", "discovery.zookeeper is not supported; there are dns, consul"),
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
    assert!(gateway.error_log().contains("config.yaml has no discovery.nacos"), "{}", gateway.error_log());
    assert_eq!(control(&gateway, "/v1/discovery/nacos/dump").0, 404);
    assert_eq!(control(&gateway, "/v1/discovery/consul/dump").0, 200);
}
