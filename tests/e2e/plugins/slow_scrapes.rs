//! Scrapes that read nothing: pages of metrics that are held are few, whoever asks for more shares them.

use serde_json::json;
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::growth;
use tidegate_testkit::{Client, Gateway};

/// Enough for a page of some megabytes, which no socket takes as a whole.
const SETS: usize = 3_000;

#[test]
fn pages_for_slow_readers_are_shared() {
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "plugins": {"prometheus": {}, "mocking": {"response_example": "fine"}},
    }]});
    let labels = "[{who: $arg_who}]";
    let config = YAML_PROVIDER.replace(
        "prometheus: {",
        &format!("prometheus: {{metrics: {{http_status: {{extra_labels: {labels}}}, http_latency: {{extra_labels: {labels}}}}}, "),
    );
    let gateway = Gateway::start(&config, Some(&routes.to_string()));
    let mut client = gateway.client();
    for number in 0..SETS {
        assert_eq!(client.get("h", &format!("/?who={number}")).expect("an answer").status(), 200);
    }
    let connect = || Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let scrape = |client: &mut Client| client.get("metrics", "/apisix/prometheus/metrics").expect("a page");
    let size = scrape(&mut connect()).body.len() as u64;
    assert!(size > 10 << 20, "{size} bytes");
    // A second one, for what the first left in memory.
    scrape(&mut connect());
    let (slow, grown) = growth(&gateway, || {
        (0..16)
            .map(|_| {
                let mut client = connect();
                client.send(b"GET /apisix/prometheus/metrics HTTP/1.1\r\nHost: h\r\n\r\n").expect("sends");
                // The head is there, so the page is, too.
                client.exactly(16).expect("a beginning");
                client
            })
            .collect::<Vec<_>>()
    });
    println!("16 readers of a page of {} MB: +{} MB", size >> 20, grown >> 20);
    assert!(grown < 8 * size, "+{} MB with pages of {} MB", grown >> 20, size >> 20);
    gateway.wait_for_log("metrics pages: a scrape gets");
    assert_eq!(scrape(&mut connect()).status(), 200);
    // Without them a scrape shows what is so now.
    drop(slow);
    let started = std::time::Instant::now();
    assert_eq!(client.get("h", "/?who=last").expect("an answer").status(), 200);
    while !scrape(&mut connect()).body_text().contains("who=\"last\"") {
        assert!(started.elapsed() < tidegate_testkit::PATIENCE, "the page is an old one");
    }
}
