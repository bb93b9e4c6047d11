//! Upstreams whose nodes come from registries. DNS is dnsmasq; Consul is real where `TIDEGATE_CONSUL` names it; the
//! others are fakes that answer only what the real ones understand (see each file).

mod consul;
mod consul_kv;
mod dns;
mod eureka;
mod kubernetes;
mod nacos;
mod names;
mod registry;
mod settings;

use std::collections::BTreeSet;
use std::time::Instant;

use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Client, Gateway, PATIENCE, Upstream};

/// A node that answers its name to everything.
fn node(name: &'static str) -> Upstream {
    Upstream::service(move |_| (200, name.to_owned()))
}

fn gateway(discovery: &str) -> Gateway {
    Gateway::start(&format!("{EMBEDDED}discovery:\n{discovery}\n"), None)
}

/// A route for `uri` whose upstream has these fields.
fn route(gateway: &Gateway, uri: &str, upstream: &str) {
    let name = uri.trim_start_matches('/');
    let body = format!(r#"{{"uri":"{uri}","upstream":{{"type":"roundrobin",{upstream}}}}}"#);
    let (status, text) = gateway.admin("PUT", &format!("/apisix/admin/routes/{name}"), &body);
    assert!(status < 300, "{text}");
}

/// Status and body of one request.
fn get(gateway: &Gateway, path: &str) -> (u16, String) {
    let answer = gateway.client().get("h", path).expect("the gateway answers");
    (answer.status(), answer.body_text())
}

/// Who answers a few requests in a row: bodies of good answers, else statuses.
fn answering(gateway: &Gateway, path: &str) -> BTreeSet<String> {
    let mut client = gateway.client();
    let once = |_| {
        let answer = client.get("h", path).expect("the gateway answers");
        if answer.status() == 200 { answer.body_text() } else { answer.status().to_string() }
    };
    (0..8).map(once).collect()
}

/// Waits until exactly these answer.
fn wait_for(gateway: &Gateway, path: &str, names: &[&str]) {
    let wanted: BTreeSet<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let start = Instant::now();
    loop {
        let now = answering(gateway, path);
        if now == wanted {
            return;
        }
        assert!(start.elapsed() < PATIENCE, "{path} is answered by {now:?}, never by {wanted:?}");
    }
}

/// A document of the Control API.
fn control(gateway: &Gateway, path: &str) -> (u16, serde_json::Value) {
    let mut client = Client::connect(gateway.control).expect("the control port accepts connections");
    let answer = client.get("localhost", path).expect("an answer");
    (answer.status(), serde_json::from_str(&answer.body_text()).unwrap_or_default())
}
