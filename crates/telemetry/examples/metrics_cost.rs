//! Prints what a block lookup, a recorded request and a rendering of 100,000 blocks cost.
//! `cargo run --release -p tidegate-telemetry --example metrics_cost`

#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use tidegate_telemetry::metrics::{
    ExtraLabels, Format, HTTP_LATENCY_BUCKETS_MS, HttpMetrics, HttpSample, Labels, Registry,
};

fn main() {
    let registry = Registry::new("apisix_");
    let metrics = HttpMetrics::register(
        &registry,
        &HTTP_LATENCY_BUCKETS_MS,
        100_000,
        Duration::ZERO,
        &ExtraLabels::default(),
    );
    let mut shard = registry.shard();
    let labels = |route: u64| {
        move |labels: &mut Labels| {
            labels.push("200");
            labels.push(&route.to_string());
            for value in ["/some/uri/*", "example.com", "service", "jack", "10.0.0.1", "", "", "", "upstream"]
            {
                labels.push(value);
            }
        }
    };
    let sample =
        HttpSample { request_us: 700, upstream_us: Some(500), ingress_bytes: 80, egress_bytes: 1_200 };
    let key = |route: u64| route.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut route = 0;
    let mut timed = |name: &str, work: &mut dyn FnMut(u64)| {
        const ROUNDS: u32 = 10_000_000;
        let start = Instant::now();
        for _ in 0..ROUNDS {
            route = (route + 7) % 100;
            work(route);
        }
        println!("{name}: {:.1} ns", start.elapsed().as_nanos() as f64 / f64::from(ROUNDS));
    };
    timed("lookup among 100 blocks", &mut |route| {
        black_box(shard.block(metrics.group(), key(route), labels(route)));
    });
    timed("lookup and record a request", &mut |route| {
        metrics.record(&mut shard, key(route), labels(route), black_box(sample));
    });
    for route in 0..100_000 {
        metrics.record(&mut shard, key(route), labels(route), sample);
    }
    for name in ["first rendering", "next rendering"] {
        let start = Instant::now();
        let (text, stats) = registry.render(Format::Text, Vec::new(), |_| {});
        println!("{name}: {:?}, {} MiB, {stats:?}", start.elapsed(), text.len() >> 20);
    }
}
