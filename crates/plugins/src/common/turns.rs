//! Takes turns over things with weights.

use std::{sync::OnceLock, time::Instant};

use tidegate_balancing::{Algorithm, NodeSpec, Upstream, UpstreamSpec};
use tidegate_plugin_api::host;

/// The balancer of upstream nodes, over anything that has numbers.
pub(crate) struct Turns(Upstream);

impl Turns {
    pub(crate) fn new(weights: &[u32]) -> Turns {
        let node = |(index, weight): (usize, &u32)| NodeSpec {
            host: index.to_string().into(),
            weight: *weight,
            ..NodeSpec::default()
        };
        let spec = UpstreamSpec {
            nodes: weights.iter().enumerate().map(node).map(Into::into).collect(),
            algorithm: Algorithm::RoundRobin,
            ..UpstreamSpec::default()
        };
        Turns(Upstream::new(spec, host().map_or(1, |host| host.workers), None))
    }

    /// The index of the weight whose turn it is. `None` when all of them are 0.
    pub(crate) fn next(&self, worker: usize, started: Instant) -> Option<usize> {
        let now_ms = started.saturating_duration_since(start()).as_millis() as u64;
        self.0.pick(worker, None, &[], now_ms).map(usize::from)
    }
}

/// The process's first request: the balancer wants a clock.
fn start() -> Instant {
    static START: OnceLock<Instant> = OnceLock::new();
    *START.get_or_init(Instant::now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_are_kept() {
        let turns = Turns::new(&[3, 0, 1]);
        let mut counts = [0; 3];
        for _ in 0..8 {
            counts[turns.next(0, Instant::now()).unwrap()] += 1;
        }
        assert_eq!(counts, [6, 0, 2]);
    }
}
