//! Nodes that are named: each address of a name is a node of its own.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::servers::{self, Server};
use tidegate_testkit::{Gateway, PATIENCE, free_port};

use super::{control, get, route};

/// dnsmasq with a file of names, which it reads again when it is told to.
struct Names {
    server: Server,
    hosts: PathBuf,
    _folder: tempfile::TempDir,
}

impl Names {
    fn start(lines: &str) -> Names {
        let folder = tempfile::tempdir().expect("a folder");
        let hosts = folder.path().join("hosts");
        fs::write(&hosts, lines).expect("the file is written");
        let server = servers::dnsmasq(None, &[&format!("--addn-hosts={}", hosts.display()), "--local-ttl=1"]);
        Names { server, hosts, _folder: folder }
    }

    fn change(&self, lines: &str) {
        fs::write(&self.hosts, lines).expect("the file is written");
        self.server.process.signal(rustix::process::Signal::HUP);
    }

    fn gateway(&self) -> Gateway {
        let resolver = format!("apisix:\n  dns_resolver: [\"{}\"]\n", self.server.address);
        Gateway::start(&EMBEDDED.replacen("apisix:\n", &resolver, 1), None)
    }
}

/// nginx on one port of several addresses; each answers the address that was asked.
fn backend(addresses: &[&str]) -> (Server, u16) {
    let port = free_port();
    let listen: String = addresses.iter().map(|address| format!("listen {address}:{port};\n")).collect();
    (servers::nginx(&format!("{listen}location / {{ return 200 $server_addr; }}")), port)
}

fn named(gateway: &Gateway, name: &str, port: u16, more: &str) {
    route(gateway, "/named", &format!(r#""nodes":{{"{name}:{port}":1}}{more}"#));
}

/// Who answered so many new connections, and with what status.
fn counts(gateway: &Gateway, connections: usize) -> BTreeMap<(u16, String), usize> {
    let mut counts = BTreeMap::new();
    for _ in 0..connections {
        *counts.entry(get(gateway, "/named")).or_default() += 1;
    }
    counts
}

#[test]
fn addresses_of_a_name_share_its_requests() {
    let (_backend, port) = backend(&["127.0.0.2", "127.0.0.3"]);
    let names = Names::start("127.0.0.2 app.service\n127.0.0.3 app.service\n127.0.0.2 node_1\n");
    let gateway = names.gateway();
    named(&gateway, "app.service", port, "");
    let found = counts(&gateway, 200);
    for address in ["127.0.0.2", "127.0.0.3"] {
        let share = found.get(&(200, address.to_owned())).copied().unwrap_or_default();
        assert!((80..=120).contains(&share), "{found:?}");
    }
    // Beside another node the name has its weight, not that of all its addresses.
    let (_other, other) = backend(&["127.0.0.4"]);
    route(&gateway, "/named", &format!(r#""nodes":{{"app.service:{port}":2,"127.0.0.4:{other}":2}}"#));
    let found = counts(&gateway, 200);
    let share = found.get(&(200, "127.0.0.4".to_owned())).copied().unwrap_or_default();
    assert!((80..=120).contains(&share), "{found:?}");
    // Compose files call their services so.
    named(&gateway, "node_1", port, "");
    assert_eq!(get(&gateway, "/named"), (200, "127.0.0.2".to_owned()));
}

#[test]
fn a_dead_address_costs_no_request_and_is_shown() {
    let (_backend, port) = backend(&["127.0.0.2"]);
    let names = Names::start("127.0.0.2 app.service\n127.0.0.9 app.service\n");
    let gateway = names.gateway();
    let log =
        r#"{"plugins":{"prometheus":{},"response-rewrite":{"headers":{"set":{"X-Ip":"$balancer_ip"}}}}}"#;
    assert!(gateway.admin("PUT", "/apisix/admin/global_rules/1", log).0 < 300);
    named(&gateway, "app.service", port, "");
    let answers = counts(&gateway, 200);
    assert_eq!(answers, BTreeMap::from([((200, "127.0.0.2".to_owned()), 200)]));
    gateway.wait_for_log(&format!("app.service:{port} (127.0.0.9)"));
    let answer = gateway.client().get("h", "/named").expect("an answer");
    assert_eq!(answer.header("X-Ip"), Some("127.0.0.2"));
    // Health is that of an address.
    let checks = r#","checks":{"passive":{"type":"http","unhealthy":{"tcp_failures":1}},"active":{"type":"tcp",
        "healthy":{"interval":1,"successes":1},"unhealthy":{"interval":1,"tcp_failures":1}}}"#;
    named(&gateway, "app.service", port, checks);
    let started = Instant::now();
    loop {
        assert_eq!(get(&gateway, "/named").0, 200);
        let shown = control(&gateway, "/v1/healthcheck/routes/named").1;
        let has = |ip: &str, status: &str| {
            let nodes = shown["nodes"].as_array().cloned().unwrap_or_default();
            nodes
                .iter()
                .any(|node| node["ip"] == ip && node["status"] == status && node["hostname"] == "app.service")
        };
        if has("127.0.0.2", "healthy") && has("127.0.0.9", "unhealthy") {
            break;
        }
        assert!(started.elapsed() < PATIENCE, "{shown}");
    }
}

#[test]
fn an_address_that_dns_has_left_gets_no_more_requests() {
    let (_backend, port) = backend(&["127.0.0.2", "127.0.0.3", "127.0.0.4"]);
    let names = Names::start("127.0.0.2 app.service\n127.0.0.3 app.service\n");
    let gateway = names.gateway();
    named(&gateway, "app.service", port, "");
    let mut kept = gateway.client();
    let mut ask = || {
        let answer = kept.get("h", "/named").expect("an answer");
        assert_eq!(answer.status(), 200);
        answer.body_text()
    };
    // Connections to both are open and used.
    while ask() != "127.0.0.2" || ask() != "127.0.0.3" {}
    names.change("127.0.0.3 app.service\n127.0.0.4 app.service\n");
    let changed = Instant::now();
    while ask() != "127.0.0.4" {
        assert!(changed.elapsed() < PATIENCE, "{}", gateway.error_log());
    }
    // Other workers learn of it in the same moment; the record lives for a second.
    let mut last = None;
    while changed.elapsed() < Duration::from_secs(4) {
        let other = get(&gateway, "/named");
        assert_eq!(other.0, 200, "{}", other.1);
        if ask() == "127.0.0.2" || other.1 == "127.0.0.2" {
            last = Some(changed.elapsed());
        }
    }
    assert!(last.is_none_or(|last| last < Duration::from_secs(3)), "asked {last:?} after the change");
}
