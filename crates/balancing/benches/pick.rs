//! Nanoseconds per pick for each balancer. Run with `cargo bench -p tidegate-balancing`.

#![allow(clippy::print_stdout, reason = "figures are what it is for")]

use std::{hint::black_box, time::Instant};

use tidegate_balancing::{Algorithm, NodeSpec, Upstream, UpstreamSpec};

fn main() {
    let algorithms =
        [Algorithm::RoundRobin, Algorithm::ConsistentHash, Algorithm::Ewma, Algorithm::LeastConnections];
    for algorithm in algorithms {
        for count in [2u16, 10, 100] {
            let nodes = (0..count).map(|port| NodeSpec {
                host: "127.0.0.1".into(),
                port,
                weight: 1 + u32::from(port % 3),
                ..NodeSpec::default()
            });
            let spec =
                UpstreamSpec { nodes: nodes.map(Into::into).collect(), algorithm, ..UpstreamSpec::default() };
            let upstream = Upstream::new(spec, 1, None);
            let rounds = 1_000_000u32;
            let started = Instant::now();
            for round in 0..rounds {
                let key = round.to_be_bytes();
                let node = black_box(upstream.pick(0, Some(&key), &[], u64::from(round)));
                if let Some(node) = node {
                    upstream.started(node);
                    upstream.finished(node, Some(1.0), u64::from(round));
                }
            }
            let pick_ns = started.elapsed().as_nanos() as f64 / f64::from(rounds);
            println!("{algorithm:<18?} {count:>4} nodes: {pick_ns:>6.1} ns/request");
        }
    }
}
