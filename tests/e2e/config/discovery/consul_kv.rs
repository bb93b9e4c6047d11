//! Nodes in Consul's keys.

use tidegate_testkit::Consul;

use super::{control, gateway, get, node, route, wait_for};

#[test]
fn keys_come_and_go() {
    let mut consul = Consul::start();
    let (a, b) = (node("a"), node("b"));
    let key = |node: &tidegate_testkit::Upstream| format!("upstreams/web/127.0.0.1:{}", node.address.port());
    consul.put_key(&key(&a), r#"{"weight": 5}"#);
    let gateway = gateway(&format!("  consul_kv: {{servers: [\"{}\"]}}", consul.url()));
    let service = format!("{}/v1/kv/upstreams/web/", consul.url());
    route(&gateway, "/web", &format!(r#""service_name":"{service}","discovery_type":"consul_kv""#));
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    let dump = control(&gateway, "/v1/discovery/consul_kv/dump").1;
    assert_eq!(dump["services"][&service][0]["weight"], 5, "{dump}");
    consul.put_key(&key(&b), r#"{"weight": 5}"#);
    wait_for(&gateway, "/web", &["a", "b"]);
    // A node that says it is not well is none.
    consul.put_key(&key(&a), r#"{"weight": 5, "check_status": false}"#);
    wait_for(&gateway, "/web", &["b"]);
    consul.kill();
    assert_eq!(get(&gateway, "/web"), (200, "b".to_owned()));
}

#[test]
fn the_last_key_takes_the_nodes_with_it() {
    let consul = Consul::start();
    let a = node("a");
    let key = format!("upstreams/web/127.0.0.1:{}", a.address.port());
    consul.put_key(&key, "{}");
    let gateway = gateway(&format!("  consul_kv: {{servers: [\"{}\"]}}", consul.url()));
    let service = format!("{}/v1/kv/upstreams/web/", consul.url());
    route(&gateway, "/web", &format!(r#""service_name":"{service}","discovery_type":"consul_kv""#));
    assert_eq!(get(&gateway, "/web"), (200, "a".to_owned()));
    consul.delete_key(&key);
    wait_for(&gateway, "/web", &["503"]);
}
