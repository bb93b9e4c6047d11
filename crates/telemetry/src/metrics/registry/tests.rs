//! Rendering, summing over shards, limits and expiry, through the public API.

use std::time::{Duration, Instant};

use super::super::{ExtraLabels, Format, HTTP_LATENCY_BUCKETS_MS, HttpMetrics, HttpSample, Registry};

fn text(registry: &Registry) -> String {
    text_at(registry, Instant::now())
}

fn text_at(registry: &Registry, now: Instant) -> String {
    String::from_utf8(registry.render_at(now, Format::Text, Vec::new(), |_| {}).0).expect("metrics are text")
}

fn http(registry: &Registry, limit: usize, expire: Duration) -> HttpMetrics {
    let extra = ExtraLabels { status: vec!["team".into()], ..ExtraLabels::default() };
    HttpMetrics::register(registry, &HTTP_LATENCY_BUCKETS_MS, limit, expire, &extra)
}

fn record(metrics: &HttpMetrics, shard: &mut super::super::Shard, key: u64, code: &str) {
    let sample =
        HttpSample { request_us: 3_500, upstream_us: Some(1_500), ingress_bytes: 100, egress_bytes: 1_000 };
    let push = |labels: &mut super::super::Labels| {
        for value in
            [code, "r\"1", "/a", "", "s1", "jack", "10.0.0.1", "traditional_http", "", "", "upstream"]
        {
            labels.push(value);
        }
        labels.push("core");
    };
    metrics.record(shard, key, push, sample);
}

#[test]
fn shards_and_finer_blocks_add_up_to_one_series() {
    let registry = Registry::new("apisix_");
    let metrics = http(&registry, 10, Duration::ZERO);
    let (mut one, mut two) = (registry.shard(), registry.shard());
    record(&metrics, &mut one, 1, "200");
    record(&metrics, &mut one, 1, "200");
    record(&metrics, &mut two, 9, "200");
    record(&metrics, &mut two, 2, "404");
    let common = r#"route="r\"1",service="s1",consumer="jack",node="10.0.0.1",request_type="traditional_http",request_llm_model="",llm_model="""#;
    let status = |code: &str| {
        format!(
            r#"apisix_http_status{{code="{code}",route="r\"1",matched_uri="/a",matched_host="",service="s1",consumer="jack",node="10.0.0.1",request_type="traditional_http",request_llm_model="",llm_model="",response_source="upstream",team="core"}}"#
        )
    };
    let text = text(&registry);
    for expected in [
        "# TYPE apisix_http_status counter".to_owned(),
        "# TYPE apisix_http_latency histogram".to_owned(),
        format!("{} 3", status("200")),
        format!("{} 1", status("404")),
        format!("apisix_http_latency_bucket{{type=\"request\",{common},le=\"2\"}} 0"),
        format!("apisix_http_latency_bucket{{type=\"request\",{common},le=\"5\"}} 4"),
        format!("apisix_http_latency_bucket{{type=\"apisix\",{common},le=\"2\"}} 4"),
        format!("apisix_http_latency_bucket{{type=\"upstream\",{common},le=\"+Inf\"}} 4"),
        format!("apisix_http_latency_sum{{type=\"request\",{common}}} 14"),
        format!("apisix_http_latency_count{{type=\"request\",{common}}} 4"),
        format!("apisix_bandwidth{{type=\"egress\",{common}}} 4000"),
        "apisix_metric_series_overflow_total 0".to_owned(),
    ] {
        assert!(text.lines().any(|line| line == expected), "missing: {expected}\n{text}");
    }
}

#[test]
fn label_sets_over_the_limit_share_a_visible_series() {
    let registry = Registry::new("");
    let metrics = http(&registry, 2, Duration::ZERO);
    let mut shard = registry.shard();
    for key in 0..5 {
        record(&metrics, &mut shard, key, &key.to_string());
    }
    let text = text(&registry);
    assert!(text.contains("code=\"_overflow\",route=\"_overflow\""), "{text}");
    assert!(text.contains("metric_series_overflow_total 3\n"), "{text}");
    assert!(!text.contains("code=\"3\""), "{text}");
}

#[test]
fn the_limit_is_that_of_all_workers() {
    let registry = Registry::new("");
    let metrics = http(&registry, 2, Duration::from_secs(60));
    let (mut one, mut two) = (registry.shard(), registry.shard());
    record(&metrics, &mut one, 1, "200");
    record(&metrics, &mut two, 1, "200");
    record(&metrics, &mut two, 2, "404");
    record(&metrics, &mut one, 3, "500");
    record(&metrics, &mut one, 2, "404");
    let start = Instant::now();
    let text = text_at(&registry, start);
    assert!(text.contains("code=\"_overflow\"") && !text.contains("code=\"500\""), "{text}");
    let counted = |code: &str, count: &str| {
        let label = format!("code=\"{code}\"");
        text.lines().any(|line| line.contains(&label) && line.ends_with(count))
    };
    assert!(counted("200", " 2") && counted("404", " 2"), "{text}");
    // Expired series make room.
    let _ = text_at(&registry, start + Duration::from_secs(61));
    one.sweep();
    two.sweep();
    record(&metrics, &mut one, 3, "500");
    assert!(text_at(&registry, start + Duration::from_secs(62)).contains("code=\"500\""));
}

#[test]
fn long_values_fill_the_limit_sooner() {
    let registry = Registry::new("");
    let metrics = http(&registry, 100, Duration::ZERO);
    let mut shard = registry.shard();
    for key in 0..100 {
        let push = |labels: &mut super::super::Labels| {
            for _ in 0..11 {
                labels.push("");
            }
            labels.push(&format!("{key}{}", "v".repeat(1_000)));
        };
        metrics.record(&mut shard, key, push, HttpSample::default());
    }
    let stats = registry.render(Format::Text, Vec::new(), |_| {}).1;
    assert!((40..90).contains(&stats.blocks) && stats.overflowed > 10, "{stats:?}");
}

#[test]
fn untouched_series_expire_and_come_back() {
    let registry = Registry::new("");
    let metrics = http(&registry, 10, Duration::from_secs(60));
    let mut shard = registry.shard();
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    record(&metrics, &mut shard, 1, "200");
    record(&metrics, &mut shard, 2, "404");
    assert!(text_at(&registry, after(0)).contains("code=\"404\""));
    record(&metrics, &mut shard, 1, "200");
    assert!(text_at(&registry, after(50)).contains("code=\"404\""));
    let text = text_at(&registry, after(61));
    assert!(!text.contains("code=\"404\""), "{text}");
    assert!(text.contains("code=\"200\""), "{text}");
    // The latency series both fed keeps what the expired block had counted.
    assert!(
        text.lines().any(|line| line.starts_with("http_latency_count") && line.ends_with(" 3")),
        "{text}"
    );
    shard.sweep();
    record(&metrics, &mut shard, 2, "404");
    let text = text_at(&registry, after(62));
    assert!(text.lines().any(|line| line.starts_with("http_status{code=\"404\"") && line.ends_with(" 1")));
}

#[test]
fn collectors_write_samples_of_their_own() {
    let registry = Registry::new("apisix_");
    let (bytes, _) = registry.render(Format::Text, Vec::new(), |out| {
        out.family("node_info", "this\nnode", super::Kind::Gauge);
        out.sample("node_info", &[("hostname", "a\\b")], 1.5);
    });
    let text = String::from_utf8(bytes).expect("metrics are text");
    assert!(text.contains("# HELP node_info this\\nnode\n"), "{text}");
    assert!(text.ends_with("node_info{hostname=\"a\\\\b\"} 1.5\n"), "{text}");
}

#[test]
fn series_expire_although_nobody_renders() {
    let registry = Registry::new("apisix_");
    let metrics = http(&registry, 10, Duration::from_secs(1));
    assert_eq!(registry.shortest_expiry(), Some(Duration::from_secs(1)));
    let mut shard = registry.shard();
    let start = Instant::now();
    record(&metrics, &mut shard, 1, "200");
    registry.expire_series_at(start);
    // The second look sees that nothing has changed since.
    registry.expire_series_at(start + Duration::from_millis(250));
    record(&metrics, &mut shard, 2, "404");
    let text = text_at(&registry, start + Duration::from_millis(1300));
    assert!(!text.contains("code=\"200\"") && text.contains("code=\"404\""), "{text}");
}

#[test]
fn labels_are_hidden_per_family_and_their_series_add_up() {
    let registry = Registry::new("apisix_");
    let metrics = http(&registry, 10, Duration::ZERO);
    let mut shard = registry.shard();
    let node = super::super::label_position("node").expect("a label");
    for (key, address) in [(1, "10.0.0.1"), (2, "10.0.0.2")] {
        let sample = HttpSample { ingress_bytes: 100, ..HttpSample::default() };
        let push = |labels: &mut super::super::Labels| {
            for value in ["200", "r", "", "", "", "", address, "", "", "", "", ""] {
                labels.push(value);
            }
            // Number 2 is bandwidth.
            labels.hide(2, 1 << node);
        };
        metrics.record(&mut shard, key, push, sample);
    }
    let text = text(&registry);
    let lines = |start: &str, node: &str| {
        text.lines().filter(|line| line.starts_with(start) && line.contains(node)).collect::<Vec<_>>()
    };
    assert_eq!(lines("apisix_http_status{", "node=\"10.0.0.").len(), 2, "{text}");
    let ingress = lines("apisix_bandwidth{type=\"ingress\"", "node=\"\"");
    assert!(ingress.len() == 1 && ingress[0].ends_with(" 200"), "{ingress:?}");
}
