//! Changes that were once not followed, each as few of them as it takes.

use serde_json::{Value, json};
use tidegate_compiler::Key;
use tidegate_model::{Kind, resources::DiscoveredService};

use crate::{
    damage::Damage,
    keys::PAIRS,
    objects::HOSTS,
    state::{Mode, State},
    steps::{Change, Step, Write},
};

fn check(changes: impl IntoIterator<Item = Change>) {
    let steps: Vec<Step> = changes.into_iter().map(|change| Step { change, is_looked_at: true }).collect();
    State::new(Mode::of(0)).follow(&steps).expect("the same as from scratch");
}

fn key(kind: Kind, id: &str) -> Key {
    (kind, id.into())
}

fn put(kind: Kind, id: &str, value: Value) -> Change {
    Change::Write(vec![Write::Put(key(kind, id), value)])
}

/// The configuration of a plugin with one upstream.
fn probe(node: &str) -> Value {
    json!({"text": "one", "upstreams": [{"type": "roundrobin", "nodes": {node: 1}, "checks": {
        "active": {"http_path": "/", "healthy": {"interval": 1}}
    }}]})
}

fn address() -> Change {
    Change::Addresses(HOSTS[0].to_owned(), vec![[127, 0, 0, 2].into()])
}

/// Neither lookups nor probes go on.
#[test]
fn a_consumer_takes_the_upstreams_of_its_plugins_with_it() {
    let consumer = json!({"username": "c", "plugins": {"probe": probe("one.test:80")}});
    check([put(Kind::Consumer, "c", consumer), Change::Write(vec![Write::Delete(key(Kind::Consumer, "c"))])]);
}

#[test]
fn addresses_reach_the_consumers_of_a_group() {
    check([
        put(Kind::ConsumerGroup, "g", json!({"plugins": {"probe": probe("one.test:80")}})),
        put(Kind::Consumer, "c", json!({"username": "c", "plugins": {}, "group_id": "g"})),
        address(),
    ]);
}

/// Else a certificate that has been replaced stays in use until the route changes.
#[test]
fn client_certificates_reach_upstreams_inside_of_plugins() {
    let upstream = json!({"type": "roundrobin", "scheme": "https", "nodes": {"127.0.0.1:1": 1}, "tls": {"client_cert_id": "t"}});
    let split = json!({"rules": [{"weighted_upstreams": [{"upstream": upstream}]}]});
    let pair = |number: usize| json!({"type": "client", "cert": PAIRS[number].0, "key": PAIRS[number].1});
    check([
        put(Kind::Route, "r", json!({"uri": "/a", "plugins": {"traffic-split": split}})),
        put(Kind::Ssl, "t", pair(0)),
        put(Kind::Ssl, "t", pair(1)),
    ]);
}

#[test]
fn a_route_that_cannot_be_read_follows_the_hosts_of_its_service() {
    check([
        put(Kind::Route, "r", json!({"uri": "/b", "service_id": "s"})),
        Change::Write(vec![Write::Damage(key(Kind::Route, "r"), Damage::LostButPlace)]),
        put(Kind::Service, "s", json!({"hosts": ["a.test"]})),
    ]);
}

#[test]
fn a_plugin_that_cannot_be_built_still_waits_for_its_nodes() {
    let secret = "$secret://vault/1/a/key";
    let upstreams = json!([
        {"type": "roundrobin", "service_name": "users", "discovery_type": "consul"},
        {"type": "roundrobin", "scheme": "https", "nodes": {"127.0.0.1:1": 1}, "tls": {"client_cert": PAIRS[0].0, "client_key": secret}},
    ]);
    let service = DiscoveredService {
        registry: "consul".into(),
        name: "users".into(),
        namespace: None,
        group: None,
        grpc: false,
    };
    check([
        put(Kind::GlobalRule, "x", json!({"plugins": {"probe": {"text": "one", "upstreams": upstreams}}})),
        Change::Nodes(service, Vec::new().into()),
    ]);
}

/// See ADR 42. All that is known of it are its paths from before.
#[test]
fn a_route_of_which_nothing_can_be_read_comes_first() {
    for lost in [json!({"uri": "/*", "host": "a.test"}), json!({"uri": "/a", "priority": 1})] {
        check([
            put(Kind::Route, "r", lost),
            put(Kind::Route, "other", json!({"uri": "/a"})),
            Change::Write(vec![Write::Damage(key(Kind::Route, "r"), Damage::Lost)]),
        ]);
    }
}
