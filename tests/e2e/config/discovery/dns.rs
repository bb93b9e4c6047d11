//! DNS, by dnsmasq.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use tidegate_testkit::servers;

use super::{answering, control, gateway, get, node, route, wait_for};

fn conf(address: SocketAddr) -> String {
    format!("  dns: {{servers: [\"{address}\"]}}")
}

#[test]
fn addresses_of_a_name_with_a_port() {
    let node = node("a");
    let server = servers::dnsmasq(None, &["--host-record=one.service,127.0.0.1"]);
    let gateway = gateway(&conf(server.address));
    let port = node.address.port();
    route(&gateway, "/one", &format!(r#""service_name":"one.service:{port}","discovery_type":"dns""#));
    // The write is answered when the first lookup has been.
    assert_eq!(get(&gateway, "/one"), (200, "a".to_owned()));
    assert_eq!(control(&gateway, "/v1/discovery/dns/dump").0, 404);
    // No such name is not a node.
    route(&gateway, "/none", r#""service_name":"none.service:80","discovery_type":"dns""#);
    assert_eq!(get(&gateway, "/none").0, 503);
}

#[test]
fn services_with_ports_weights_and_priorities() {
    let (a, b, spare) = (node("a"), node("b"), node("spare"));
    let record = |node: &tidegate_testkit::Upstream, priority: u16, weight: u16| {
        format!("--srv-host=web.service,host.service,{},{priority},{weight}", node.address.port())
    };
    let (first, second, third) = (record(&a, 10, 3), record(&b, 10, 1), record(&spare, 20, 1));
    let host = "--host-record=host.service,127.0.0.1";
    let server = servers::dnsmasq(None, &[host, &first, &second, &third]);
    let gateway = gateway(&conf(server.address));
    route(&gateway, "/web", r#""service_name":"web.service","discovery_type":"dns""#);
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let mut client = gateway.client();
    for _ in 0..40 {
        *counts.entry(client.get("h", "/web").expect("answers").body_text()).or_default() += 1;
    }
    // The higher number is the lower priority: it waits until the others are gone.
    assert_eq!(counts, BTreeMap::from([("a".to_owned(), 30), ("b".to_owned(), 10)]));
    drop((a, b));
    assert_eq!(answering(&gateway, "/web"), ["spare".to_owned()].into());
}

#[test]
fn records_change_and_outages_change_nothing() {
    let (a, b) = (node("a"), node("b"));
    let record = |node: &tidegate_testkit::Upstream| {
        format!("--srv-host=web.service,host.service,{}", node.address.port())
    };
    let host = "--host-record=host.service,127.0.0.1";
    let mut server = servers::dnsmasq(None, &[host, &record(&a)]);
    let address = server.address;
    let gateway = gateway(&conf(address));
    route(&gateway, "/web", r#""service_name":"web.service","discovery_type":"dns""#);
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    server.process.signal_kill();
    server.process.wait_for_exit();
    // Until a lookup has failed.
    let start = std::time::Instant::now();
    while !gateway.error_log().contains("discovery dns: web.service") {
        assert!(start.elapsed() < 2 * tidegate_testkit::PATIENCE, "{}", gateway.error_log());
        assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    }
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    let _again = servers::dnsmasq(Some(address), &[host, &record(&b)]);
    wait_for(&gateway, "/web", &["b"]);
}
