//! A look inside the running gateway: CPU profiles and heap statistics on the Control API.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::Value;
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::{Client, Gateway, eventually};

fn profiled_gateway() -> Gateway {
    let control = "control: {ip: 127.0.0.1, port: @CONTROL@";
    let gateway = Gateway::start(&EMBEDDED.replace(control, &format!("{control}, profiling: true")), None);
    let route = r#"{"uri":"/a","plugins":{"mocking":{"response_example":"x"}}}"#;
    let (status, text) = gateway.admin("PUT", "/apisix/admin/routes/1", route);
    assert!(status < 300, "{text}");
    gateway
}

fn get(gateway: &Gateway, path: &str) -> (u16, Vec<u8>) {
    let mut client = Client::connect(gateway.control).expect("the Control API accepts connections");
    let answer = client.get("localhost", path).expect("an answer");
    (answer.status(), answer.body)
}

/// Sends requests until `act` has ended.
fn under_load<R>(gateway: &Gateway, act: impl FnOnce() -> R) -> R {
    let over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut client = gateway.client();
            while !over.load(Ordering::Relaxed) {
                assert_eq!(client.get("h", "/a").expect("an answer").status(), 200);
            }
        });
        let acted = act();
        over.store(true, Ordering::Relaxed);
        acted
    })
}

#[test]
fn a_profile_names_what_workers_do() {
    let gateway = profiled_gateway();
    let (status, text) = under_load(&gateway, || get(&gateway, "/v1/profile?seconds=2&format=folded"));
    let text = String::from_utf8_lossy(&text);
    assert_eq!(status, 200, "{text}");
    let workers: Vec<&str> = text.lines().filter(|line| line.starts_with("worker-")).collect();
    assert!(workers.iter().any(|line| line.contains(";tidegate_proxy::")), "{text}");
    let (status, compressed) = get(&gateway, "/v1/profile?seconds=1");
    assert!(status == 200 && compressed.starts_with(&[0x1f, 0x8b]), "{status}");
    let (status, heap) = get(&gateway, "/v1/heap");
    let heap: Value = serde_json::from_slice(&heap).expect("JSON");
    assert!(status == 200 && heap["allocator"] == "mimalloc", "{heap}");
    assert!(heap["resident_bytes"].as_u64() > Some(1 << 20), "{heap}");
}

#[test]
fn one_is_taken_at_a_time_and_ends_with_its_client() {
    let gateway = profiled_gateway();
    let asked = || get(&gateway, "/v1/profile?seconds=1");
    // One that comes during a profile of `asked` is refused, so each turn sends another.
    let mut clients = Vec::new();
    eventually("a profile is being taken", || {
        let mut client = Client::connect(gateway.control).expect("the Control API accepts connections");
        client.send(b"GET /v1/profile?seconds=60 HTTP/1.1\r\nHost: localhost\r\n\r\n").expect("sends");
        clients.push(client);
        asked().0 == 409
    });
    let (_, message) = asked();
    assert!(String::from_utf8_lossy(&message).contains("one is taken at a time"));
    drop(clients);
    eventually("it has ended", || asked().0 == 200);
}

#[test]
fn it_is_off_unless_config_yaml_says_so() {
    let gateway = Gateway::start(EMBEDDED, None);
    for path in ["/v1/profile", "/v1/heap"] {
        let (status, message) = get(&gateway, path);
        let message = String::from_utf8_lossy(&message).into_owned();
        assert!(status == 403 && message.contains("apisix.control.profiling: true"), "{status} {message}");
    }
}
