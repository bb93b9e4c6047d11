//! Consul's services.

use tidegate_testkit::upstream::Upstream;
use tidegate_testkit::{Consul, Relay};

use super::{control, gateway, get, node, route, wait_for};

fn conf(consul: &Consul, more: &str) -> String {
    format!("  consul: {{servers: [\"{}\"]{more}}}", consul.url())
}

fn register(consul: &Consul, name: &str, id: &str, node: &Upstream) {
    consul.register(name, id, "127.0.0.1", node.address.port());
}

#[test]
fn instances_come_and_go_and_stay_while_consul_is_down() {
    let mut consul = Consul::start();
    let (a, b) = (node("a"), node("b"));
    register(&consul, "web", "web-1", &a);
    let gateway = gateway(&conf(&consul, ", token: \"\""));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"consul""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    register(&consul, "web", "web-2", &b);
    wait_for(&gateway, "/web", &["a", "b"]);
    consul.deregister("web-1");
    wait_for(&gateway, "/web", &["b"]);

    // Unknown services have no nodes; one that comes later is there without another write.
    route(&gateway, "/late", r#""service_name":"late","discovery_type":"consul""#);
    assert_eq!(get(&gateway, "/late").0, 503);
    register(&consul, "late", "late-1", &a);
    wait_for(&gateway, "/late", &["a"]);
    consul.deregister("late-1");
    wait_for(&gateway, "/late", &["503"]);

    let dump = control(&gateway, "/v1/discovery/consul/dump").1;
    let port = b.address.port();
    assert_eq!(
        dump["services"]["web"],
        serde_json::json!([{"host": "127.0.0.1", "port": port, "weight": 1}]),
        "{dump}"
    );
    assert_eq!(dump["config"]["timeout"], serde_json::json!({"connect": 2000, "read": 2000, "wait": 60}));

    consul.kill();
    let start = std::time::Instant::now();
    while !gateway.error_log().contains("discovery consul: http://") {
        assert!(start.elapsed() < tidegate_testkit::PATIENCE, "{}", gateway.error_log());
        assert_eq!(get(&gateway, "/web"), (200, "b".to_owned()));
    }
    assert_eq!(get(&gateway, "/web"), (200, "b".to_owned()));
}

#[test]
fn a_partition_changes_nothing_and_heals() {
    let consul = Consul::start();
    let (a, b) = (node("a"), node("b"));
    register(&consul, "web", "web-1", &a);
    let network = Relay::to(consul.address);
    let timeout = "timeout: {connect: 200, read: 200, wait: 1}";
    let gateway = gateway(&format!("  consul: {{servers: [\"http://{}\"], {timeout}}}", network.address));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"consul""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    network.partition();
    register(&consul, "web", "web-2", &b);
    consul.deregister("web-1");
    let start = std::time::Instant::now();
    while !gateway.error_log().contains("discovery consul: http://") {
        assert!(start.elapsed() < tidegate_testkit::PATIENCE, "{}", gateway.error_log());
        assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    }
    network.heal();
    let start = std::time::Instant::now();
    wait_for(&gateway, "/web", &["b"]);
    assert!(start.elapsed().as_secs() < 10, "{:?}", start.elapsed());
}

#[test]
fn only_instances_whose_checks_pass() {
    let consul = Consul::start();
    let (a, b) = (node("a"), node("b"));
    register(&consul, "web", "web-1", &a);
    register(&consul, "web", "web-2", &b);
    let gateway = gateway(&conf(&consul, ""));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"consul""#);
    wait_for(&gateway, "/web", &["a", "b"]);
    consul.set_check("web-1", false);
    wait_for(&gateway, "/web", &["b"]);
    consul.set_check("web-1", true);
    wait_for(&gateway, "/web", &["a", "b"]);
}

#[test]
fn tokens_open_what_is_closed() {
    let token = "8d6a6aaf-93a2-4a4c-9b3f-0a1b2c3d4e5f";
    let consul = Consul::start_with(token);
    let a = node("a");
    register(&consul, "web", "web-1", &a);
    let open = gateway(&conf(&consul, &format!(", token: {token}")));
    route(&open, "/web", r#""service_name":"web","discovery_type":"consul""#);
    wait_for(&open, "/web", &["a"]);
    assert_eq!(control(&open, "/v1/discovery/consul/dump").1["config"]["token"], "***");
    let closed = gateway(&conf(&consul, ""));
    route(&closed, "/web", r#""service_name":"web","discovery_type":"consul""#);
    assert_eq!(get(&closed, "/web").0, 503);
}

#[test]
fn without_keepalive_it_asks_again_and_again() {
    let consul = Consul::start();
    let (a, b) = (node("a"), node("b"));
    register(&consul, "web", "web-1", &a);
    let gateway = gateway(&conf(&consul, ", keepalive: false, fetch_interval: 1, sort_type: port_sort"));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"consul""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    register(&consul, "web", "web-2", &b);
    wait_for(&gateway, "/web", &["a", "b"]);
}

#[test]
fn the_dump_file_serves_a_start_without_consul() {
    let mut consul = Consul::start();
    let a = node("a");
    register(&consul, "web", "web-1", &a);
    let mut gateway = gateway(&conf(&consul, ", dump: {path: data/consul.json}"));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"consul""#);
    wait_for(&gateway, "/web", &["a"]);
    // The file follows the nodes.
    let start = std::time::Instant::now();
    let shown = loop {
        let (status, shown) = control(&gateway, "/v1/discovery/consul/show_dump_file");
        if status == 200 {
            break shown;
        }
        assert!(start.elapsed() < tidegate_testkit::PATIENCE, "no dump file");
    };
    assert_eq!(shown["services"]["web"][0]["host"], "127.0.0.1", "{shown}");
    consul.kill();
    gateway.process.stop();
    gateway.restart();
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
}

#[test]
fn services_that_are_unknown_may_have_a_default() {
    let consul = Consul::start();
    let (a, b) = (node("a"), node("b"));
    register(&consul, "web", "web-1", &a);
    let default = format!(", default_service: {{host: 127.0.0.1, port: {}}}", b.address.port());
    let gateway = gateway(&conf(&consul, &format!(", skip_services: [web]{default}")));
    route(&gateway, "/web", r#""service_name":"web","discovery_type":"consul""#);
    assert_eq!(get(&gateway, "/web"), (200, "b".to_owned()));
}
