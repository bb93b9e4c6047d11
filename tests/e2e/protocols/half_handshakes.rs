//! Clients that send half of a first TLS message and stay: how many is bounded, and they keep nobody out.
//!
//! `TIDEGATE_HALF_HANDSHAKES=10000` opens as many as an attacker would.

use std::net::SocketAddr;
use std::time::Instant;

use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::growth;
use tidegate_testkit::{Client, Gateway, PATIENCE, free_port};

use crate::operations::admin_bounds::descriptors::with_few;
use crate::protocols::certs::{quoted, self_signed};
use crate::protocols::secure::{Offer, Secure};

fn metric(gateway: &Gateway, start: &str) -> f64 {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let line = page.lines().find(|line| line.starts_with(start));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {start} on the page: {page}"))
}

fn gateway(limits: &str) -> (Gateway, SocketAddr) {
    let (config, objects, address) = files(limits);
    (Gateway::start(&config, Some(&objects)), address)
}

/// Of a gateway with a certificate, and where it listens for TLS.
fn files(limits: &str) -> (String, String, SocketAddr) {
    let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
    let pair = self_signed("a.test");
    let ssl = format!(
        "client_limits: {{handshake_timeout: 60s{limits}}}\n  ssl: {{listen: [{{ip: 127.0.0.1, port: {}}}]}}",
        address.port()
    );
    let config = YAML_PROVIDER.replace("ssl: {enable: false}", &ssl);
    let objects = format!(
        "routes:\n- {{id: 1, uri: \"/*\", plugins: {{mocking: {{response_example: fine}}}}}}\nssls:\n- {{id: a, sni: a.test, cert: {}, key: {}}}\n",
        quoted(&pair.cert),
        quoted(&pair.key)
    );
    (config, objects, address)
}

/// Half of a message of 16 KB, from an address of this machine.
fn half(from: [u8; 4], to: SocketAddr) -> Client {
    let mut client = Client::connect_from(SocketAddr::from((from, 0)), to).expect("connects");
    let mut hello = vec![22, 3, 1, 0x40, 0, 1, 0, 0x40, 0, 3, 3];
    hello.resize(8 << 10, 0);
    client.send(&hello).expect("sends");
    client
}

#[test]
fn they_keep_nobody_out() {
    let number =
        std::env::var("TIDEGATE_HALF_HANDSHAKES").map_or(400, |text| text.parse().expect("a number"));
    let (gateway, address) = gateway(", handshakes: 200, handshakes_per_address: 100");
    let unfinished = || metric(&gateway, "apisix_tls_handshakes_unfinished ");
    let ended =
        |reason: &str| metric(&gateway, &format!("apisix_tls_handshakes_ended_total{{reason=\"{reason}\"}}"));
    let get_in = || Secure::connect(address, "a.test", &Offer::default().config(None)).is_ok();
    assert!(get_in());
    let (held, grown) = growth(&gateway, || {
        let held: Vec<Client> = (0..number).map(|_| half([127, 0, 0, 2], address)).collect();
        let started = Instant::now();
        while ended("oldest") + ended("refused") < (number - 100) as f64 {
            assert!(started.elapsed() < PATIENCE, "{} of {number} are unfinished", unfinished());
        }
        held
    });
    println!("{number} halves from one address: +{} KB", grown >> 10);
    assert!(grown < 16 << 20, "+{} MB", grown >> 20);
    assert!(unfinished() <= 100.0, "{}", unfinished());
    // From another address at once; from the same one as soon as the others have had their time.
    assert!(get_in());
    let mut more: Vec<Client> = (0..100).map(|_| half([127, 0, 0, 3], address)).collect();
    let started = Instant::now();
    while !get_in() {
        assert!(started.elapsed() < PATIENCE, "strangers from two addresses keep others out");
    }
    let before = ended("oldest");
    let started = Instant::now();
    while ended("oldest") == before {
        assert!(started.elapsed() < PATIENCE, "the oldest makes no room");
        more.push(half([127, 0, 0, 2], address));
    }
    gateway.wait_for_log("too many unfinished TLS handshakes");
    drop((held, more));
    let started = Instant::now();
    while unfinished() > 0.0 {
        assert!(started.elapsed() < PATIENCE, "{} are left", unfinished());
    }
}

/// Without any setting a quarter of what the descriptors allow is for one address.
#[test]
fn there_is_a_bound_by_default() {
    let (config, objects, address) = files("");
    let mut gateway = Gateway::start_by(&config, Some(&objects), with_few(256));
    gateway.process.wait_for_port(gateway.http);
    let held: Vec<Client> = (0..40).map(|_| half([127, 0, 0, 2], address)).collect();
    let started = Instant::now();
    while metric(&gateway, "apisix_tls_handshakes_ended_total{reason=\"refused\"}") < 24.0 {
        assert!(started.elapsed() < PATIENCE, "all {} are held", held.len());
    }
    assert!(Secure::connect(address, "a.test", &Offer::default().config(None)).is_ok());
}
