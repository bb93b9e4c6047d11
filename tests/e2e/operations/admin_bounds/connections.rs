//! Connections: how many, and for how long.

use std::time::{Duration, Instant};

use tidegate_testkit::gateway::Gateway;
use tidegate_testkit::{Client, PATIENCE};

use super::{ask, get, start, with};
use crate::protocols::certs::Authority;

/// Not on the list of `allow_admin` that is the default.
const STRANGER: &str = "127.0.1.1:0";
/// On it.
const OPERATOR: &str = "127.0.0.1:0";
const OTHER_STRANGER: &str = "127.0.1.2:0";

/// A connection that was taken up: its request is answered.
fn open(gateway: &Gateway, from: &str) -> Option<Client> {
    let mut client = Client::connect_from(from.parse().expect("an address"), gateway.admin).ok()?;
    client.get("h", "/apisix/admin/routes").ok().map(|_| client)
}

fn open_many(gateway: &Gateway, from: &str, count: usize) -> Vec<Client> {
    (0..count).filter_map(|_| open(gateway, from)).collect()
}

/// How many of them still get an answer.
fn still_open(clients: &mut [Client]) -> usize {
    clients.iter_mut().filter_map(|client| client.get("h", "/apisix/admin/routes").ok()).count()
}

#[test]
fn a_strangers_address_has_eight_connections() {
    let gateway = start("audit_log: logs/audit.log");
    let strangers = open_many(&gateway, STRANGER, 20);
    assert_eq!(strangers.len(), 8);
    assert_eq!(open_many(&gateway, OTHER_STRANGER, 1).len(), 1, "another address has its own");
    assert_eq!(open_many(&gateway, OPERATOR, 20).len(), 20, "the list knows no limit of an address");
    gateway.wait_for_log(
        "connection from 127.0.1.1 refused: deployment.admin.limits.connections_per_address is reached",
    );
    assert_eq!(get(&gateway, OTHER_STRANGER), Some(403), "and is refused by its address, whatever its key");
    drop(strangers);
    let started = Instant::now();
    while open(&gateway, STRANGER).is_none() {
        assert!(started.elapsed() < PATIENCE, "there is room again");
    }
    let all = still_open(&mut open_many(&gateway, OPERATOR, 300));
    assert!((200..=256).contains(&all), "{all} connections in total");
}

#[test]
fn clients_with_a_key_do_not_count() {
    // Who lets everybody in names nobody.
    for all in ["null", "[0.0.0.0/0]"] {
        known_clients_do_not_count(all);
    }
}

fn known_clients_do_not_count(allow: &str) {
    let limits = "limits: {connections_per_address: 2, connections: 20}";
    let gateway = start(&format!("allow_admin: {allow}\n    {limits}"));
    let known = || {
        let mut client =
            Client::connect_from(STRANGER.parse().expect("an address"), gateway.admin).expect("connects");
        (ask(&mut client), client)
    };
    let clients: Vec<_> = (0..4).map(|_| known()).collect();
    assert!(clients.iter().all(|(status, _)| *status == Some(200)));
    assert_eq!(open_many(&gateway, STRANGER, 8).len(), 2);
    assert_eq!(open_many(&gateway, OTHER_STRANGER, 8).len(), 2);
}

/// Strangers take the places of strangers, and of these the one that has waited longest for a request.
#[test]
fn strangers_leave_room_for_the_operator() {
    let gateway = start("limits: {connections: 8, connections_per_address: 0}");
    let mut operators = open_many(&gateway, OPERATOR, 2);
    let mut strangers = open_many(&gateway, STRANGER, 20);
    assert_eq!((strangers.len(), still_open(&mut operators)), (20, 2));
    assert_eq!(still_open(&mut strangers), 6);
    gateway.wait_for_log(
        "which had waited longest for a request: deployment.admin.limits.connections is reached",
    );
}

/// Addresses without a key must not lock out who has shown one, nor the machine itself, where everybody may connect.
#[test]
fn who_has_shown_a_key_comes_back() {
    let gateway =
        start("allow_admin: [0.0.0.0/0]\n    limits: {connections: 16, connections_per_address: 0}");
    assert_eq!(get(&gateway, OTHER_STRANGER), Some(200), "it has shown its key");
    let mut strangers = open_many(&gateway, STRANGER, 20);
    assert_eq!(still_open(&mut strangers), 12, "strangers have three quarters");
    for from in [OTHER_STRANGER, OPERATOR] {
        assert_eq!(get(&gateway, from), Some(200), "{from}");
    }
    assert_eq!(still_open(&mut strangers), 12);
}

/// Any program on the machine can connect to its own address.
#[test]
fn heads_that_never_end_lock_nobody_out() {
    let gateway = start("limits: {header_timeout: 60}");
    for (address, path) in [
        (gateway.admin, "/apisix/admin/routes"),
        (gateway.control, "/v1/schema"),
        (gateway.metrics, "/apisix/prometheus/metrics"),
    ] {
        let slow = |_| {
            let mut client = Client::connect_from(OPERATOR.parse().expect("an address"), address).ok()?;
            client.send(b"GET / HTTP/1.1\r\nX-Slow: ").ok()?;
            Some(client)
        };
        let held: Vec<Client> = (0..400).filter_map(slow).collect();
        for _ in 0..3 {
            let mut client =
                Client::connect_from(OPERATOR.parse().expect("an address"), address).expect("connects");
            let status = client.get("localhost", path).map(|answer| answer.status()).expect("an answer");
            assert!([200, 401].contains(&status), "{path}: {status}");
        }
        assert_eq!(held.len(), 400);
    }
}

/// Until the gateway closes the connection.
fn seconds(client: &mut Client) -> f64 {
    let started = Instant::now();
    client.to_close().expect("it is closed");
    started.elapsed().as_secs_f64()
}

#[test]
fn heads_and_idle_connections_have_their_times() {
    let gateway = start("limits: {header_timeout: 1, keepalive_timeout: 5}");
    let connect = || Client::connect(gateway.admin).expect("connects");
    let (mut idle, mut second) = (connect(), connect());
    assert_eq!(ask(&mut idle), Some(200));
    let answered = Instant::now();
    assert_eq!(ask(&mut second), Some(200));
    let (mut silent, mut half) = (connect(), connect());
    half.send(b"GET /apisix/admin/routes HTTP/1.1\r\nX-Slow: ").expect("sent");
    let started = Instant::now();
    // A byte now and then makes it no longer; the pause is what is tested.
    while half.stays_silent(Duration::from_millis(100)) && started.elapsed() < PATIENCE {
        half.send(b"a").expect("sent");
    }
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(seconds(&mut silent) < 3.0);
    // Idle for longer than a head may take; then a head has its own time again.
    assert_eq!(ask(&mut second), Some(200));
    second.send(b"GET ").expect("sent");
    let time = seconds(&mut second);
    assert!((0.9..3.0).contains(&time), "{time}");
    seconds(&mut idle);
    assert!(answered.elapsed() >= Duration::from_millis(4900), "{:?}", answered.elapsed());
}

#[test]
fn a_handshake_that_stalls_is_given_up() {
    let authority = Authority::new();
    let pair = authority.issue("admin.test");
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        path.display().to_string()
    };
    let (cert, key) = (file("cert.pem", &pair.cert), file("key.pem", &pair.key));
    let admin = format!(
        "https_admin: true\n    admin_api_mtls: {{admin_ssl_cert: {cert}, admin_ssl_cert_key: {key}}}\n    \
         limits: {{header_timeout: 1}}"
    );
    let gateway = Gateway::start(&with(&admin), None);
    for start in [&b""[..], b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"] {
        let mut client = Client::connect(gateway.admin).expect("connects");
        client.send(start).expect("sent");
        let time = seconds(&mut client);
        assert!((0.5..8.0).contains(&time), "{time}");
    }
}
