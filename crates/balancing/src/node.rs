//! A node of an upstream and the workers' measurements of it.

use crate::spec::NodeSpec;
use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

/// A node and its measurements. They survive a change of the upstream.
#[derive(Debug)]
pub struct Node {
    /// As the compiler made it of the object.
    pub spec: Arc<NodeSpec>,
    /// `None`: its balancer asks for none. There may be 50,000 upstreams.
    pub(crate) statistics: Option<Arc<Statistics>>,
}

#[derive(Debug, Default)]
pub(crate) struct Statistics {
    pub(crate) active: AtomicU32,
    /// Bits of an `f64`, milliseconds.
    pub(crate) latency: AtomicU64,
    pub(crate) touched_ms: AtomicU64,
}

/// Time in which an old latency loses its weight: 1/e is left.
const DECAY_MS: f64 = 10_000.0;

impl Node {
    /// Requests in flight, as `least_conn` counts them.
    pub fn active(&self) -> u32 {
        self.statistics.as_ref().map_or(0, |statistics| statistics.active.load(Ordering::Relaxed))
    }

    /// Counts a request, unless the node already has its maximum in flight.
    pub(crate) fn take_place(&self) -> bool {
        let limit = self.spec.max_conn.unwrap_or(u32::MAX);
        let more = |active: u32| (active < limit).then_some(active.saturating_add(1));
        self.statistics.as_ref().is_some_and(|statistics| {
            statistics.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_ok()
        })
    }
}

impl Statistics {
    /// The decayed latency. A node that was never measured scores 0 and is tried first.
    pub(crate) fn latency_ms(&self, now_ms: u64) -> f64 {
        let latency = f64::from_bits(self.latency.load(Ordering::Relaxed));
        latency * self.weight_left(now_ms)
    }

    /// A lost update between two workers costs one sample, which is cheaper than a lock.
    pub(crate) fn add_latency(&self, latency_ms: f64, now_ms: u64) {
        let left = self.weight_left(now_ms);
        let latency = f64::from_bits(self.latency.load(Ordering::Relaxed));
        let latency = latency * left + latency_ms * (1.0 - left);
        self.latency.store(latency.to_bits(), Ordering::Relaxed);
        self.touched_ms.store(now_ms, Ordering::Relaxed);
    }

    fn weight_left(&self, now_ms: u64) -> f64 {
        match self.touched_ms.load(Ordering::Relaxed) {
            0 => 0.0,
            touched_ms => (-(now_ms.saturating_sub(touched_ms) as f64) / DECAY_MS).exp(),
        }
    }
}
