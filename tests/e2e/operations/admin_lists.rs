//! Lists of the Admin API, which have megabytes: those who ask for the same one share it, and nobody else waits for them.

use std::time::{Duration, Instant};

use serde_json::Value;
use tidegate_testkit::gateway::ADMIN_KEY;
use tidegate_testkit::usage::{growth, processor_time};
use tidegate_testkit::{Client, Gateway};

use super::control_documents::{connect, many_routes, put};

const READERS: usize = 48;

fn ask(gateway: &Gateway, target: &str) -> Client {
    let mut client = Client::connect(gateway.admin).expect("connects");
    let head = format!("GET /apisix/admin/{target} HTTP/1.1\r\nHost: h\r\nX-API-KEY: {ADMIN_KEY}\r\n\r\n");
    client.send(head.as_bytes()).expect("sends");
    client
}

fn list(gateway: &Gateway, target: &str) -> Value {
    let answer = ask(gateway, target).response().expect("a list");
    assert_eq!(answer.status(), 200, "{target}");
    serde_json::from_str(&answer.body_text()).expect("JSON")
}

#[test]
fn readers_of_a_list_share_it_and_keep_nobody_waiting() {
    let gateway = many_routes();
    for target in ["routes", "export"] {
        let before = processor_time(&gateway);
        let size = ask(&gateway, target).response().expect("a list").body.len() as u64;
        let once = processor_time(&gateway) - before;
        assert!(size > 3 << 20, "{target}: {size} bytes");
        let before = processor_time(&gateway);
        let ((slow, waited), grown) = growth(&gateway, || {
            let mut slow: Vec<Client> = (0..READERS).map(|_| ask(&gateway, target)).collect();
            let waited: Vec<Duration> = vec![
                put(&gateway, &format!("/{target}")),
                taken(|| drop(gateway.admin("GET", "/apisix/admin/routes/1", ""))),
                taken(|| drop(connect(&gateway).get("localhost", "/v1/schema"))),
            ];
            for client in &mut slow {
                client.exactly(16).expect("a beginning");
            }
            (slow, waited)
        });
        let spent = processor_time(&gateway) - before;
        println!(
            "{target}: {READERS} readers of {} MB: +{} MB, {spent:?}, {once:?} for one; others waited {waited:?}",
            size >> 20,
            grown >> 20
        );
        assert!(grown < 12 * size, "{target}: +{} MB with {} MB", grown >> 20, size >> 20);
        assert!(spent < once * 12, "{target}: {spent:?}, {once:?} for one");
        assert!(waited.iter().all(|waited| *waited < Duration::from_secs(3)), "{target}: {waited:?}");
        drop(slow);
    }
}

fn taken(act: impl FnOnce()) -> Duration {
    let begun = Instant::now();
    act();
    begun.elapsed()
}

/// What is shared is the same question about the same revision.
#[test]
fn a_list_is_of_its_question_and_its_time() {
    let gateway = many_routes();
    let _held = ask(&gateway, "routes");
    let all = list(&gateway, "routes");
    let total = all["total"].as_u64().expect("a number");
    assert_eq!(list(&gateway, "routes?page=2&page_size=10")["list"].as_array().map(Vec::len), Some(10));
    assert_eq!(list(&gateway, "routes?uri=/r7/")["total"], 1);
    put(&gateway, "/latest");
    assert_eq!(list(&gateway, "routes")["total"], total + 1);
    assert_eq!(list(&gateway, "routes?uri=/latest")["total"], 1);
    assert_eq!(list(&gateway, "services")["total"], 0);
}
