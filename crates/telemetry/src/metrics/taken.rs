//! What finished requests have added since the last look: for figures over time, without a scrape.

use super::{
    block::Block,
    group::{CounterCell, Group, HistogramCell},
};

/// APISIX's default latency buckets.
pub const HTTP_LATENCY_BUCKETS_MS: [u64; 15] =
    [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000];

const BUCKETS: usize = HTTP_LATENCY_BUCKETS_MS.len() + 1;

/// Counts of one set of labels since the last call.
#[derive(Clone, Copy, Debug)]
pub struct TakenRequests<'a> {
    /// The status; empty where `disabled_labels` hide it, as are the others.
    pub code: &'a str,
    /// The route.
    pub route: &'a str,
    /// The consumer.
    pub consumer: &'a str,
    /// How many ended.
    pub requests: u64,
    /// In the buckets of [`HTTP_LATENCY_BUCKETS_MS`], whichever were configured; the last one has no bound.
    pub latency: [u64; BUCKETS],
    /// Of all together.
    pub latency_us: u64,
    /// Bytes from clients.
    pub ingress: u64,
    /// Bytes to clients.
    pub egress: u64,
}

/// Where a block of requests has its cells.
#[derive(Debug)]
pub(super) struct Places {
    pub group: Group,
    pub status: CounterCell,
    pub latency: HistogramCell,
    pub ingress: CounterCell,
    pub egress: CounterCell,
}

/// What was taken of a block so far: status, ingress, egress, then the cells of the histogram.
pub(super) type Seen = Option<Box<[u64]>>;

/// Shows what its requests have added to a block since the last look.
pub(super) fn take(
    places: &Places,
    block: &Block,
    seen: &mut Seen,
    visit: &mut impl FnMut(&TakenRequests<'_>),
) {
    let requests = block.cell(places.status.0);
    if requests == seen.as_ref().and_then(|seen| seen.first().copied()).unwrap_or_default() {
        return;
    }
    let cells = places.latency.bounds.len() + 2;
    let first = [requests, block.cell(places.ingress.0), block.cell(places.egress.0)];
    let now: Box<[u64]> =
        first.into_iter().chain(block.values().skip(places.latency.first).take(cells)).collect();
    let before = seen.replace(now.clone()).unwrap_or_else(|| vec![0; now.len()].into());
    let delta = |at: usize| {
        let (now, before) = (now.get(at).copied(), before.get(at).copied());
        now.unwrap_or_default().wrapping_sub(before.unwrap_or_default())
    };
    let mut latency = [0; BUCKETS];
    for bucket in 0..cells - 1 {
        let bound = places.latency.bounds.get(bucket).map(|us| us.div_ceil(1000));
        let fits = |wanted: u64| HTTP_LATENCY_BUCKETS_MS.iter().position(|ms| wanted <= *ms);
        let own = bound.and_then(fits).unwrap_or(BUCKETS - 1);
        latency[own] += delta(3 + bucket);
    }
    let labels = block.labels();
    visit(&TakenRequests {
        code: labels.shown(0, 0),
        route: labels.shown(0, 1),
        consumer: labels.shown(0, 5),
        requests: delta(0),
        latency,
        latency_us: delta(3 + cells - 1),
        ingress: delta(1),
        egress: delta(2),
    });
}
