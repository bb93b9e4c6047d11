//! Upstreams, mirrors and batches that point at the gateway itself: a request that goes round ends soon, and one that comes back
//! on purpose arrives.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::YAML_PROVIDER;
use tidegate_testkit::usage::processor_time;
use tidegate_testkit::{Client, Gateway, PATIENCE, Upstream};

fn gateway(upstream: &Upstream, config: &str) -> Gateway {
    let node = |address: &str| json!({"type": "roundrobin", "nodes": {address: 1}});
    let (own, other) = (node("127.0.0.1:@HTTP@"), node(&upstream.address.to_string()));
    let route = |id: &str, plugins: Value, upstream: &Value| json!({"id": id.replace('/', "-"), "uri": format!("/{id}"), "plugins": plugins, "upstream": upstream});
    let to = |uri: &str| json!({"proxy-rewrite": {"uri": uri}});
    let routes = json!({"routes": [
        route("loop", json!({}), &own),
        route("mirror", json!({"proxy-mirror": {"host": "http://127.0.0.1:@HTTP@"}}), &other),
        route("first", to("/second"), &own),
        route("second", to("/third"), &own),
        route("third", to("/plain"), &other),
        route("plain", json!({}), &other),
        route("apisix/batch-requests", json!({"public-api": {}}), &other),
    ]});
    let config =
        format!("{config}plugins: [prometheus, public-api, batch-requests, proxy-rewrite, proxy-mirror]\n");
    Gateway::start(&config, Some(&routes.to_string()))
}

fn requests(gateway: &Gateway) -> usize {
    let mut client = Client::connect(gateway.metrics).expect("the metrics port accepts connections");
    let page = client.get("metrics", "/apisix/prometheus/metrics").expect("a page").body_text();
    let line = page.lines().find_map(|line| line.strip_prefix("apisix_http_requests_total "));
    line.expect("requests are counted").parse().expect("a number")
}

/// The fields of this name that the upstream got with its last request.
fn seen(upstream: &Upstream) -> Vec<String> {
    let seen = upstream.seen();
    let text = seen.last().expect("a request").text().to_ascii_lowercase();
    text.lines()
        .filter_map(|line| line.strip_prefix("cdn-loop:"))
        .map(|value| value.trim().to_owned())
        .collect()
}

#[test]
fn a_request_that_goes_round_ends() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let before = requests(&gateway);
    assert_eq!(gateway.client().get("h", "/loop").expect("an answer").status(), 508);
    assert_eq!(
        requests(&gateway) - before,
        12,
        "the first, ten that came back, and the one that was refused"
    );
    gateway.wait_for_log("a request has come back 10 times (apisix.max_own_hops)");
}

#[test]
fn a_copy_that_goes_round_ends() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let before = requests(&gateway);
    assert_eq!(gateway.client().get("h", "/mirror").expect("an answer").status(), 200);
    gateway.wait_for_log("a plugin's request to 127.0.0.1:");
    // Quiet: nothing more comes.
    let started = Instant::now();
    let mut last = processor_time(&gateway);
    loop {
        std::thread::sleep(Duration::from_millis(20));
        let now = processor_time(&gateway);
        if now - last < Duration::from_millis(10) {
            break;
        }
        last = now;
        assert!(started.elapsed() < PATIENCE, "copies go on");
    }
    assert_eq!(requests(&gateway) - before, 2, "the first and its copy, which is not copied");
}

#[test]
fn chains_end_at_the_limit_of_the_file() {
    let upstream = Upstream::start();
    for (hops, expected) in [(2, 200), (1, 508)] {
        let config = YAML_PROVIDER.replacen("apisix:\n", &format!("apisix:\n  max_own_hops: {hops}\n"), 1);
        let gateway = gateway(&upstream, &config);
        assert_eq!(gateway.client().get("h", "/first").expect("an answer").status(), expected, "{hops} hops");
        assert_eq!(gateway.client().get("h", "/second").expect("an answer").status(), 200, "{hops} hops");
    }
}

/// Nothing is added to a request that goes elsewhere, and nobody can end the requests of others.
#[test]
fn other_requests_are_left_alone() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let mut client = gateway.client();
    assert_eq!(client.get("h", "/plain").expect("an answer").status(), 200);
    assert_eq!(seen(&upstream), [""; 0]);
    // What others have written stays (RFC 8586 section 2), and is not believed to be ours.
    let loops = "cdn.example; abc, tidegate-0000000000000000;hops=99";
    let sent = format!("GET /plain HTTP/1.1\r\nHost: h\r\nCDN-Loop: {loops}\r\n\r\n");
    assert_eq!(client.request(&sent).expect("an answer").status(), 200);
    assert_eq!(seen(&upstream), [loops]);
    let sent = sent.replace("/plain", "/second");
    assert_eq!(client.request(&sent).expect("an answer").status(), 200);
    let through = seen(&upstream);
    let [through] = through.as_slice() else { panic!("{through:?}") };
    assert!(through.starts_with(&format!("{loops}, tidegate-")) && through.ends_with(";hops=2"), "{through}");
}

#[test]
fn requests_of_batches_are_counted() {
    let upstream = Upstream::start();
    let gateway = gateway(&upstream, YAML_PROVIDER);
    let mut body = json!({"pipeline": [{"path": "/plain"}]}).to_string();
    for depth in 1..=12 {
        let sent = format!(
            "POST /apisix/batch-requests HTTP/1.1\r\nHost: h\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        let answer = gateway.client().request(&sent).expect("an answer").body_text();
        assert_eq!(answer.contains("508"), depth > 10, "{depth}: {answer}");
        body = json!({"pipeline": [{"path": "/apisix/batch-requests", "method": "POST", "body": body}]})
            .to_string();
    }
}
