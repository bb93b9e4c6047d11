//! Exact counts, proportions and what is skipped, through the public interface.

use proptest::prelude::*;
use tidegate_balancing::{
    Algorithm, Checks, HealthSignal, NodeSpec, Source, Upstream, UpstreamSpec,
    health::{State, Thresholds},
};

fn node(port: u16, weight: u32, priority: i32) -> NodeSpec {
    NodeSpec { host: "127.0.0.1".into(), port, weight, priority, ..NodeSpec::default() }
}

fn upstream(algorithm: Algorithm, weights: &[u32]) -> UpstreamSpec {
    let nodes = (1980u16..).zip(weights).map(|(port, weight)| node(port, *weight, 0).into()).collect();
    UpstreamSpec { nodes, algorithm, ..UpstreamSpec::default() }
}

fn checked(mut spec: UpstreamSpec) -> UpstreamSpec {
    spec.checks = Some(Box::new(Checks { passive: Some(Thresholds::passive()), ..Checks::default() }));
    spec
}

fn counts(upstream: &Upstream, picks: usize, tried: &[u16]) -> Vec<usize> {
    let mut counts = vec![0; upstream.nodes.len()];
    for _ in 0..picks {
        if let Some(node) = upstream.pick(0, None, tried, 1) {
            counts[usize::from(node)] += 1;
        }
    }
    counts
}

fn fail(upstream: &Upstream, node: u16) {
    for _ in 0..2 {
        upstream.report(node, Source::Passive, HealthSignal::TcpFailure);
    }
}

const ALGORITHMS: [Algorithm; 4] =
    [Algorithm::RoundRobin, Algorithm::ConsistentHash, Algorithm::Ewma, Algorithm::LeastConnections];

#[test]
fn round_robin_counts_are_exact() {
    for (weights, picks, expected) in [
        (&[1u32, 1][..], 12, &[6usize, 6][..]),
        (&[1, 2], 12, &[4, 8]),
        (&[5, 0, 1], 12, &[10, 0, 2]),
        (&[0, 0], 4, &[2, 2]),
        (&[3, 2, 1], 600, &[300, 200, 100]),
    ] {
        let upstream = Upstream::new(upstream(Algorithm::RoundRobin, weights), 2, None);
        assert_eq!(counts(&upstream, picks, &[]), expected, "{weights:?}");
    }
}

/// The results that APISIX's own tests expect for clients at 127.0.0.1.
#[test]
fn consistent_hash_places_as_apisix() {
    for (weights, expected) in [(&[1u32, 1][..], 1980u16), (&[1, 1, 1], 1982)] {
        let upstream = Upstream::new(upstream(Algorithm::ConsistentHash, weights), 1, None);
        let picked = upstream.pick(0, Some(b"127.0.0.1"), &[], 0).unwrap();
        assert_eq!(upstream.nodes[usize::from(picked)].spec.port, expected);
    }
}

#[test]
fn consistent_hash_without_weights_has_no_node() {
    let upstream = Upstream::new(upstream(Algorithm::ConsistentHash, &[0, 0]), 1, None);
    assert_eq!(upstream.pick(0, Some(b"k"), &[], 0), None);
}

#[test]
fn consistent_hash_keeps_keys_of_healthy_nodes() {
    let upstream = Upstream::new(checked(upstream(Algorithm::ConsistentHash, &[1, 1, 1])), 1, None);
    let place = |key: u32| upstream.pick(0, Some(key.to_string().as_bytes()), &[], 0).unwrap();
    let before: Vec<_> = (0..1000).map(place).collect();
    fail(&upstream, 1);
    let after: Vec<_> = (0..1000).map(place).collect();
    for (before, after) in before.iter().zip(&after) {
        assert!(*after != 1 && (*before == 1 || before == after));
    }
}

#[test]
fn lone_and_missing_nodes() {
    for algorithm in ALGORITHMS {
        let one = Upstream::new(upstream(algorithm, &[0]), 1, None);
        assert_eq!(one.pick(9, None, &[0], 0), Some(0));
        let none = Upstream::new(upstream(algorithm, &[]), 1, None);
        assert_eq!(none.pick(0, None, &[], 0), None);
    }
}

#[test]
fn every_node_is_tried_once_then_none() {
    for algorithm in ALGORITHMS {
        let mut spec = upstream(algorithm, &[1, 1000, 7]);
        spec.nodes.push(node(1990, 1, -1).into());
        let upstream = Upstream::new(spec, 1, None);
        let mut tried = Vec::new();
        while let Some(node) = upstream.pick(0, Some(b"k"), &tried, 1) {
            assert!(!tried.contains(&node), "{algorithm:?}");
            tried.push(node);
        }
        assert_eq!(tried.len(), 4, "{algorithm:?} {tried:?}");
        assert_eq!(tried.last(), Some(&3), "the lower priority comes last");
    }
}

#[test]
fn unhealthy_nodes_are_left_out_in_proportion() {
    let upstream = Upstream::new(checked(upstream(Algorithm::RoundRobin, &[1, 1, 2])), 1, None);
    fail(&upstream, 0);
    assert_eq!(counts(&upstream, 30, &[]), [0, 10, 20]);
    fail(&upstream, 1);
    fail(&upstream, 2);
    assert_eq!(counts(&upstream, 40, &[]), [10, 10, 20], "all unhealthy: all are used");
    for _ in 0..5 {
        upstream.report(0, Source::Passive, HealthSignal::Status(200));
    }
    assert_eq!(counts(&upstream, 10, &[]), [10, 0, 0]);
}

#[test]
fn unhealthy_priority_falls_to_the_next() {
    for algorithm in ALGORITHMS {
        let mut spec = checked(upstream(algorithm, &[1, 1]));
        spec.nodes.push(node(1990, 1, -1).into());
        let upstream = Upstream::new(spec, 1, None);
        fail(&upstream, 0);
        fail(&upstream, 1);
        assert_eq!(counts(&upstream, 5, &[]), [0, 0, 5], "{algorithm:?}");
    }
}

#[test]
fn least_connections_follow_weight_and_load() {
    let upstream = Upstream::new(upstream(Algorithm::LeastConnections, &[2, 1]), 1, None);
    let mut picked = [0; 2];
    for _ in 0..30 {
        let node = upstream.pick(0, None, &[], 0).unwrap();
        upstream.started(node);
        picked[usize::from(node)] += 1;
    }
    assert_eq!(picked, [20, 10]);
    for _ in 0..20 {
        upstream.finished(0, None, 0);
    }
    assert_eq!((upstream.nodes[0].active(), upstream.nodes[1].active()), (0, 10));
    assert_eq!(counts(&upstream, 5, &[]), [5, 0]);
    upstream.finished(0, None, 0);
    assert_eq!(upstream.nodes[0].active(), 0, "never below zero");
}

#[test]
fn ewma_prefers_the_faster() {
    let upstream = Upstream::new(upstream(Algorithm::Ewma, &[1, 1]), 1, None);
    upstream.finished(0, Some(50.0), 1000);
    upstream.finished(1, Some(5.0), 1000);
    let count = |now_ms| (0..100).filter(|_| upstream.pick(0, None, &[], now_ms) == Some(0)).count();
    assert_eq!(count(1001), 0);
    upstream.finished(1, Some(80.0), 60_000);
    assert_eq!(count(60_001), 100, "an old latency has lost its weight");
}

#[test]
fn a_change_of_nodes_keeps_what_is_known() {
    let spec = checked(upstream(Algorithm::LeastConnections, &[1, 1]));
    let before = Upstream::new(spec.clone(), 1, None);
    before.started(0);
    fail(&before, 1);
    let mut more = spec.clone();
    more.nodes.insert(0, node(1970, 1, 0).into());
    let after = Upstream::new(more, 1, Some(&before));
    assert_eq!(after.nodes[1].active(), 1);
    let state = |upstream: &Upstream, node: usize| upstream.health.as_ref().unwrap().targets[node].state();
    assert_eq!((state(&after, 0), state(&after, 2)), (State::Healthy, State::Unhealthy));
    assert_eq!(counts(&after, 10, &[])[2], 0);
    let mut other = spec;
    other.checks = Some(Box::default());
    let reset = Upstream::new(other, 1, Some(&after));
    assert_eq!(state(&reset, 1), State::Healthy, "other checks start over");
}

#[test]
fn used_only_after_a_pick() {
    let upstream = Upstream::new(checked(upstream(Algorithm::RoundRobin, &[1])), 1, None);
    let used = || upstream.health.as_ref().unwrap().is_used();
    assert!(!used());
    upstream.pick(0, None, &[], 0);
    assert!(used());
    let after = Upstream::new((*upstream.spec).clone(), 1, Some(&upstream));
    assert!(after.health.as_ref().unwrap().is_used(), "probing goes on after a change");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn round_robin_is_exact_over_a_cycle(weights in prop::collection::vec(0u32..20, 2..12)) {
        let total: u32 = weights.iter().sum();
        prop_assume!(total > 0);
        let upstream = Upstream::new(upstream(Algorithm::RoundRobin, &weights), 1, None);
        let expected: Vec<usize> = weights.iter().map(|weight| *weight as usize).collect();
        prop_assert_eq!(counts(&upstream, total as usize, &[]), expected);
    }

    #[test]
    fn a_new_node_takes_keys_but_moves_none(weights in prop::collection::vec(1u32..5, 2..8)) {
        // With one weight at 1 the common divisor stays 1 before and after.
        let mut weights = weights;
        weights[0] = 1;
        let before = Upstream::new(upstream(Algorithm::ConsistentHash, &weights), 1, None);
        weights.push(1);
        let after = Upstream::new(upstream(Algorithm::ConsistentHash, &weights), 1, None);
        let added = (weights.len() - 1) as u16;
        for key in 0..200u32 {
            let key = key.to_be_bytes();
            let (old, new) = (before.pick(0, Some(&key), &[], 0), after.pick(0, Some(&key), &[], 0));
            prop_assert!(new == Some(added) || new == old);
        }
    }

    #[test]
    fn no_balancer_returns_a_tried_node(
        weights in prop::collection::vec(1u32..9, 2..9),
        tried in prop::collection::vec(0u16..9, 0..6),
    ) {
        for algorithm in ALGORITHMS {
            let upstream = Upstream::new(upstream(algorithm, &weights), 1, None);
            let left = (0..weights.len() as u16).any(|node| !tried.contains(&node));
            let picked = upstream.pick(0, Some(b"key"), &tried, 1);
            prop_assert_eq!(picked.is_some(), left);
            prop_assert!(picked.is_none_or(|node| !tried.contains(&node)));
        }
    }
}

#[test]
fn nodes_take_so_many_requests_at_a_time() {
    for algorithm in
        [Algorithm::RoundRobin, Algorithm::LeastConnections, Algorithm::Ewma, Algorithm::ConsistentHash]
    {
        let limited = |port, max_conn| NodeSpec { max_conn, ..node(port, 1, 0) };
        let spec = UpstreamSpec {
            nodes: vec![limited(1, Some(2)).into(), limited(2, Some(1)).into()],
            algorithm,
            ..UpstreamSpec::default()
        };
        let upstream = Upstream::new(spec, 1, None);
        let pick = || {
            let picked = upstream.pick(0, Some(b"key"), &[], 0);
            picked.inspect(|picked| upstream.started(*picked))
        };
        let mut picked: Vec<_> = (0..3).map(|_| pick()).collect();
        picked.sort_unstable();
        assert_eq!(picked, [Some(0), Some(0), Some(1)], "{algorithm:?}");
        assert_eq!(pick(), None, "{algorithm:?}");
        upstream.finished(1, None, 0);
        assert_eq!(pick(), Some(1), "{algorithm:?}");
        assert_eq!(pick(), None, "{algorithm:?}");
    }
    let lone = UpstreamSpec {
        nodes: vec![NodeSpec { max_conn: Some(1), ..node(1, 1, 0) }.into()],
        ..UpstreamSpec::default()
    };
    let lone = Upstream::new(lone, 1, None);
    assert_eq!((lone.pick(0, None, &[], 0), lone.pick(0, None, &[], 0)), (Some(0), None));
}
