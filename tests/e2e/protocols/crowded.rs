//! Clients that only hold connections: the longest idle ones give way, and others are answered.

use std::collections::BTreeMap;

use rustix::process::Signal;
use tidegate_testkit::{Client, Gateway, gateway::YAML_PROVIDER};

const ROUTES: &str = "routes:\n- {id: a, uri: /*, plugins: {mocking: {response_example: here}}}\n";

/// Answered, or not let in.
fn answered(gateway: &Gateway) -> bool {
    let answer = Client::connect(gateway.http).ok().and_then(|mut client| client.get("h", "/").ok());
    answer.is_some_and(|answer| answer.status() == 200)
}

fn fill(gateway: &Gateway, prepare: impl Fn(&mut Client)) -> Vec<Client> {
    let mut held = Vec::new();
    for _ in 0..400 {
        let Ok(mut client) = Client::connect(gateway.http) else { continue };
        prepare(&mut client);
        held.push(client);
    }
    held
}

/// Who comes with the crowd may find no place; those behind it do.
fn settled(gateway: &Gateway) {
    let begun = std::time::Instant::now();
    while !answered(gateway) {
        assert!(begun.elapsed() < tidegate_testkit::PATIENCE, "nobody is let in");
    }
}

#[test]
fn idle_connections_give_way() {
    let config = YAML_PROVIDER
        .replace("worker_processes: 1", "worker_processes: 1\n  event: {worker_connections: 128}");
    let gateway = Gateway::start(&config, Some(ROUTES));
    let silent = fill(&gateway, |_| {});
    settled(&gateway);
    for number in 0..40 {
        assert!(answered(&gateway), "{number} beside silent connections");
    }
    drop(silent);
    let kept = fill(&gateway, |client| drop(client.get("h", "/")));
    settled(&gateway);
    for number in 0..40 {
        assert!(answered(&gateway), "{number} beside connections that are kept alive");
    }
    assert!(gateway.error_log().contains("closing idle ones"), "{}", gateway.error_log());
    drop(kept);
}

/// Idle connections give way to all that come at the same moment, not only to the first of them.
#[test]
fn a_burst_finds_the_places_of_idle_connections() {
    let config = YAML_PROVIDER
        .replace("worker_processes: 1", "worker_processes: 1\n  event: {worker_connections: 128}");
    let gateway = Gateway::start(&config, Some(ROUTES));
    let mut kept: Vec<Client> = (0..112).map(|_| gateway.client()).collect();
    for client in &mut kept {
        assert_eq!(client.get("h", "/").expect("an answer").status(), 200);
    }
    // They come while nobody looks, so that all of them are accepted in one go.
    gateway.process.signal(Signal::STOP);
    let mut burst: Vec<Client> = (0..90).map(|_| gateway.client()).collect();
    for client in &mut burst {
        client.send(b"GET / HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
    }
    gateway.process.signal(Signal::CONT);
    let mut seen = BTreeMap::new();
    for client in &mut burst {
        let status = client.response().map_or(0, |answer| answer.status());
        *seen.entry(status).or_insert(0) += 1;
    }
    assert_eq!(seen, BTreeMap::from([(200, 90)]), "0: not let in");
    drop(kept);
}
