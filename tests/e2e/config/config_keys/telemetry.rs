//! Metrics, traces and mirrors: what config.yaml says of plugins for the whole process.

use std::io::Read;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tidegate_testkit::gateway::Gateway;
use tidegate_testkit::{Client, PATIENCE, Upstream};

use super::standalone;

/// Spans that a collector got: heads and bodies.
fn reports(collector: &Upstream) -> Vec<String> {
    collector.seen().iter().map(tidegate_testkit::upstream::Seen::text).collect()
}

fn traced(keys: &[(&'static str, Value)], collector: &Upstream) -> Gateway {
    let mut all = vec![
        ("plugins", json!(["opentelemetry", "zipkin", "mocking"])),
        ("plugin_attr.opentelemetry.collector.address", json!(collector.address.to_string())),
        ("plugin_attr.opentelemetry.batch_span_processor.max_export_batch_size", json!(1)),
    ];
    all.extend_from_slice(keys);
    let routes = format!(
        r#"routes:
- {{id: 1, uri: /otel, plugins: {{opentelemetry: {{sampler: {{name: always_on}}}}, mocking: {{response_example: "$opentelemetry_trace_id!"}}}}}}
- {{id: 2, uri: /zipkin, plugins: {{zipkin: {{endpoint: "http://{}/zipkin", sample_ratio: 1}}, mocking: {{response_example: "$zipkin_trace_id!"}}}}}}
"#,
        collector.address
    );
    Gateway::start(&standalone(&all), Some(&routes))
}

#[test]
fn traces_are_reported_as_the_file_says() {
    let collector = Upstream::start();
    let gateway = traced(
        &[
            ("plugin_attr.opentelemetry.collector.request_headers", json!({"X-Token": "of-the-file"})),
            ("plugin_attr.opentelemetry.resource", json!({"service.name": "named-in-the-file"})),
        ],
        &collector,
    );
    let id = "0123456789abcdef0123456789abcdef";
    let request = format!("GET /otel HTTP/1.1\r\nHost: h\r\nX-Request-Id: {id}\r\n\r\n");
    let mut wanted = None;
    let deadline = Instant::now() + PATIENCE;
    while wanted.is_none() {
        assert!(Instant::now() < deadline, "nothing was reported");
        gateway.client().request(&request).expect("an answer");
        wanted = reports(&collector).into_iter().find(|report| report.contains("/v1/traces"));
    }
    let report = wanted.unwrap_or_default();
    assert!(report.to_lowercase().contains("x-token: of-the-file"), "{report}");
    assert!(report.contains("named-in-the-file"), "{report}");
}

#[test]
fn identifiers_of_traces_are_shown_and_chosen_as_the_file_says() {
    let collector = Upstream::start();
    let id = "0123456789abcdef0123456789abcdef";
    let ask = |keys: &[(&'static str, Value)], path: &str| {
        let gateway = traced(keys, &collector);
        let request = format!("GET {path} HTTP/1.1\r\nHost: h\r\nX-Request-Id: {id}\r\n\r\n");
        gateway.client().request(&request).expect("an answer").body_text()
    };
    let shown = ("plugin_attr.opentelemetry.set_ngx_var", json!(true));
    assert_eq!(ask(std::slice::from_ref(&shown), "/otel"), format!("{id}!"));
    let random = ask(&[shown, ("plugin_attr.opentelemetry.trace_id_source", json!("random"))], "/otel");
    assert!(random.len() == 33 && random != format!("{id}!"), "{random}");
    assert_eq!(ask(&[], "/otel"), "!");
    assert!(ask(&[("plugin_attr.zipkin.set_ngx_var", json!(true))], "/zipkin").len() > 16);
    assert_eq!(ask(&[], "/zipkin"), "!");
}

#[test]
fn batches_are_as_large_as_the_file_says() {
    let key = "plugin_attr.opentelemetry.batch_span_processor.max_export_batch_size";
    for (size, most) in [(1, 1), (3, 3)] {
        let collector = Upstream::start();
        let gateway = traced(&[(key, json!(size))], &collector);
        let mut client = gateway.client();
        for _ in 0..6 {
            client.get("h", "/otel").expect("an answer");
        }
        let spans = |report: &String| report.matches("http.response.status_code").count();
        let deadline = Instant::now() + PATIENCE;
        loop {
            let counts: Vec<usize> = reports(&collector).iter().map(spans).collect();
            if counts.iter().sum::<usize>() >= 6 {
                assert!(
                    counts.iter().all(|count| *count <= most) && counts.contains(&most),
                    "{size}: {counts:?}"
                );
                break;
            }
            assert!(Instant::now() < deadline, "{size}: {counts:?}");
            std::thread::yield_now();
        }
    }
}

/// The lines of the metrics page that begin like this, for the route of the test.
fn series(gateway: &Gateway, name: &str) -> Vec<String> {
    let mut client = Client::connect(gateway.metrics).expect("connects");
    let page = client.get("h", "/apisix/prometheus/metrics").expect("a page").body_text();
    let lines = page.lines().filter(|line| line.starts_with(name) && line.contains("route=\"r\""));
    lines.map(str::to_owned).collect()
}

/// A gateway that has counted a request.
fn counted(keys: &[(&str, Value)], family: &str) -> Gateway {
    let routes =
        "routes:\n- {id: r, uri: /*, plugins: {prometheus: {}, mocking: {response_example: fine}}}\n";
    let gateway = Gateway::start(&standalone(keys), Some(routes));
    let deadline = Instant::now() + PATIENCE;
    while series(&gateway, family).is_empty() {
        assert!(Instant::now() < deadline, "{family} is not on the page");
        gateway.client().get("named.test", "/").expect("an answer");
    }
    gateway
}

#[test]
fn metrics_have_the_labels_of_the_file() {
    let extra = json!([{"said_host": "$host"}]);
    for (key, family) in [
        ("plugin_attr.prometheus.metrics.http_latency.extra_labels", "apisix_http_latency_count"),
        ("plugin_attr.prometheus.metrics.bandwidth.extra_labels", "apisix_bandwidth"),
    ] {
        let with = counted(&[(key, extra.clone())], family);
        assert!(series(&with, family).iter().all(|line| line.contains("said_host=\"named.test\"")), "{key}");
        let without = counted(&[], family);
        assert!(series(&without, family).iter().all(|line| !line.contains("said_host")), "{key}");
    }
}

#[test]
fn metrics_go_when_the_file_says() {
    for (key, family) in [
        ("plugin_attr.prometheus.metrics.http_status.expire", "apisix_http_status"),
        ("plugin_attr.prometheus.metrics.http_latency.expire", "apisix_http_latency_count"),
        ("plugin_attr.prometheus.metrics.bandwidth.expire", "apisix_bandwidth"),
    ] {
        let gateway = counted(&[(key, json!(1))], family);
        let deadline = Instant::now() + PATIENCE;
        while !series(&gateway, family).is_empty() {
            assert!(Instant::now() < deadline, "{family} stays");
        }
    }
}

#[test]
fn mirrors_are_given_up_when_the_file_says() {
    let upstream = Upstream::start();
    let mirror = TcpListener::bind("127.0.0.1:0").expect("a port");
    let routes = format!(
        "routes:\n- {{id: 1, uri: /*, plugins: {{proxy-mirror: {{host: \"http://{}\"}}}}, upstream: {{nodes: {{\"{}\": 1}}}}}}\n",
        mirror.local_addr().expect("an address"),
        upstream.address
    );
    let keys = ["connect", "read", "send"]
        .map(|name| (["plugin_attr.proxy-mirror.timeout", name].join("."), json!("300ms")));
    let keys: Vec<(&str, Value)> = keys.iter().map(|(key, value)| (key.as_str(), value.clone())).collect();
    let gateway = Gateway::start(&standalone(&keys), Some(&routes));
    assert_eq!(gateway.client().get("h", "/echo").expect("an answer").status(), 200);
    let (mut stream, _) = mirror.accept().expect("the mirrored request");
    stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let asked = Instant::now();
    // Never answered: the connection ends, by default after a minute.
    stream.read_to_end(&mut Vec::new()).expect("the end of the connection");
    assert!(asked.elapsed() >= Duration::from_millis(150), "{:?}", asked.elapsed());
}
