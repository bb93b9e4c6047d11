//! Documents of the Control API, which may have megabytes, and for which nobody shows a key: many who ask at once cost
//! no more memory than a few copies, and whoever configures the gateway does not wait for them.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::EMBEDDED;
use tidegate_testkit::usage::{growth, processor_time};
use tidegate_testkit::{Client, Gateway};

const ROUTES: usize = 1_500;
const READERS: usize = 64;

fn route(uri: &str) -> Value {
    let plugins = json!({"key-auth": {}, "limit-count": {"count": 5, "time_window": 60},
        "proxy-rewrite": {"headers": {"X-A": "b".repeat(2_000)}}});
    json!({"uri": uri, "plugins": plugins, "upstream": {"nodes": {"127.0.0.1:1": 1}}})
}

pub(super) fn many_routes() -> Gateway {
    let gateway = Gateway::start(EMBEDDED, None);
    let routes = (0..ROUTES).map(|number| {
        let mut route = route(&format!("/r{number}/*"));
        route["id"] = json!(number.to_string());
        route
    });
    let body = json!({"routes": routes.collect::<Vec<_>>()}).to_string();
    let (status, text) = gateway.admin("PUT", "/apisix/admin/import", &body);
    assert_eq!(status, 200, "{text}");
    gateway
}

pub(super) fn connect(gateway: &Gateway) -> Client {
    Client::connect(gateway.control).expect("the Control API accepts connections")
}

fn ask(gateway: &Gateway, path: &str) -> Client {
    let mut client = connect(gateway);
    client.send(format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).expect("sends");
    client
}

/// How long a write takes.
pub(super) fn put(gateway: &Gateway, uri: &str) -> Duration {
    let begun = Instant::now();
    let (status, text) = gateway.admin("PUT", "/apisix/admin/routes/new", &route(uri).to_string());
    assert!(matches!(status, 200 | 201), "{text}");
    begun.elapsed()
}

#[test]
fn many_readers_share_documents_and_keep_no_write_waiting() {
    let gateway = many_routes();
    let alone = connect(&gateway).get("localhost", "/v1/routes").expect("a document");
    let size = alone.body.len() as u64;
    assert!((alone.status(), size > 4 << 20) == (200, true), "{size} bytes");
    let quiet = (0..5).map(|number| put(&gateway, &format!("/quiet{number}"))).max();

    let ((slow, waited), grown) = growth(&gateway, || {
        // They ask for different ones in turn and read nothing but that the answer has begun.
        let paths = ["/v1/routes", "/v1/schema", "/v1/routes", "/v1/healthcheck"];
        let mut slow: Vec<Client> =
            paths.iter().cycle().take(READERS).map(|path| ask(&gateway, path)).collect();
        let waited: Vec<_> = (0..5).map(|number| put(&gateway, &format!("/asked{number}"))).collect();
        for client in &mut slow {
            client.exactly(16).expect("a beginning");
        }
        (slow, waited)
    });
    println!(
        "{READERS} readers of up to {} MB: +{} MB; a write took {waited:?}, {quiet:?} before",
        size >> 20,
        grown >> 20
    );
    assert!(grown < 12 * size, "+{} MB with documents of {} MB", grown >> 20, size >> 20);
    assert!(waited.iter().all(|waited| *waited < Duration::from_secs(2)), "writes took {waited:?}");

    // Each sees what was so when it asked, or later.
    put(&gateway, "/latest");
    drop(slow);
    let newest = connect(&gateway).get("localhost", "/v1/routes").expect("a document");
    assert!(newest.body_text().contains("\"/latest\""));
}

/// Nobody shows a key for it, and probes ask every few seconds: only objects with checks cost something.
#[test]
fn health_checks_are_shown_without_a_look_at_what_has_none() {
    let gateway = many_routes();
    let asked = |path: &str| {
        let before = processor_time(&gateway);
        let answer = connect(&gateway).get("localhost", path).expect("a document");
        assert_eq!(answer.status(), 200, "{path}");
        (processor_time(&gateway) - before, answer.body_text())
    };
    let (whole, _) = asked("/v1/routes");
    let (cost, none) = asked("/v1/healthcheck");
    println!("all routes {whole:?}, their health checks {cost:?}");
    assert_eq!(none, "{}\n");
    assert!(cost < whole / 8, "all routes {whole:?}, their health checks {cost:?}");
    let checks = json!({"active": {"type": "tcp"}});
    let upstream = json!({"type": "roundrobin", "nodes": {"127.0.0.1:1": 1}, "checks": checks});
    let (status, text) = gateway.admin("PUT", "/apisix/admin/upstreams/checked", &upstream.to_string());
    assert_eq!(status, 201, "{text}");
    assert!(asked("/v1/healthcheck").1.contains("/upstreams/checked\""));
}
