//! Clients that only hold connections: the longest idle ones give way, and others are answered.

use testkit::{Client, Gateway, gateway::YAML_PROVIDER};

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
        assert!(begun.elapsed() < testkit::PATIENCE, "nobody is let in");
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
    assert!(gateway.error_log().contains("idle ones are closed to make room"), "{}", gateway.error_log());
    drop(kept);
}
