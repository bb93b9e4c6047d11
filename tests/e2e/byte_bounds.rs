//! What clients make the gateway remember is bounded in bytes, whatever they send.
//!
//! A few thousand requests show it; with the numbers of `TIDEGATE_LIMITER_KEYS` and so on the tests do what attackers would.

use serde_json::json;
use testkit::gateway::YAML_PROVIDER;
use testkit::usage::growth;
use testkit::{Client, Gateway, servers};

const MEGABYTE: u64 = 1 << 20;

/// A number of this test, or that of a variable.
fn number(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}

fn metric(gateway: &Gateway, start: &str) -> f64 {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let line = page.lines().find(|line| line.starts_with(start));
    let value = line.and_then(|line| line.rsplit(' ').next()?.parse().ok());
    value.unwrap_or_else(|| panic!("no {start} on the page: {page}"))
}

/// Paths of 7.8 KB are the keys of three plugins at once.
#[test]
fn long_keys_of_limiters_take_little() {
    let upstream = servers::nginx("location / { return 500; }");
    let routes = json!({"routes": [{
        "id": "all", "uri": "/*", "upstream": {"type": "roundrobin", "nodes": {upstream.address.to_string(): 1}},
        "plugins": {
            "proxy-rewrite": {"uri": "/"},
            "limit-count": {"count": 2, "time_window": 3600, "key": "request_uri", "key_type": "var", "rejected_code": 429},
            "limit-req": {"rate": 1e6, "burst": 1e6, "key": "request_uri"},
            "api-breaker": {"break_response_code": 502, "unhealthy": {"http_statuses": [500], "failures": 100}},
        },
    }]});
    let gateway = Gateway::start(YAML_PROVIDER, Some(&routes.to_string()));
    let keys = number("TIDEGATE_LIMITER_KEYS", 5_000);
    let path = |number: usize| format!("/{number:08}{}", "k".repeat(7_800));
    let mut client = gateway.client();
    // What the first requests need is not what is measured.
    for number in 0..50 {
        assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 500);
    }
    let ((), grown) = growth(&gateway, || {
        for number in 50..keys {
            assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 500);
        }
    });
    println!("{keys} keys of 7.8 KB at three plugins: +{} MB", grown / MEGABYTE);
    assert!(grown < (keys as u64 * 320).max(16 * MEGABYTE), "+{} MB", grown / MEGABYTE);
    // Long keys are told apart by all of their bytes, and each is counted.
    for number in [0, keys - 1] {
        assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 500, "the second");
        assert_eq!(client.get("h", &path(number)).expect("an answer").status(), 429, "the third");
    }
    assert_eq!(metric(&gateway, "apisix_limiter_keys{plugin=\"limit-count\"}"), keys as f64);
    assert_eq!(metric(&gateway, "apisix_limiter_keys_forgotten_total{plugin=\"limit-count\"}"), 0.0);
}
