//! Latencies by status, by request and until the first byte, from what the threads recorded apart.

use hdrhistogram::Histogram;

use super::{ThreadResult, merge::merge};
use crate::{
    Plan,
    engine::parts::{MAX_REQUESTS, OTHER_STATUSES, OfRequest, Parts, USUAL_STATUS},
    outcome::{ByStatus, ByUrl, latency::Latency},
};

/// `seen`: of all requests, as a user waits.
pub(super) fn by_status(harvests: &[ThreadResult], seen: Option<&Histogram<u64>>) -> Vec<ByStatus> {
    let recorded = || harvests.iter().flat_map(|harvest| &harvest.tally.parts.statuses);
    let mut statuses: Vec<u16> = recorded().map(|(status, _)| *status).collect();
    statuses.sort_unstable_by_key(|&status| (status == OTHER_STATUSES, status));
    statuses.dedup();
    let of = |wanted: u16| {
        let histograms = recorded().filter(|(status, _)| *status == wanted).map(|(_, histogram)| histogram);
        let latency = merge(histograms).as_ref().map(Latency::of).unwrap_or_default();
        ByStatus { status: wanted, latency }
    };
    let mut all: Vec<ByStatus> = statuses.into_iter().map(of).collect();
    let unanswered = harvests.iter().filter_map(|harvest| harvest.tally.parts.unanswered.as_ref());
    let others = recorded().map(|(_, histogram)| histogram).chain(unanswered);
    if let Some(usual) = seen.map(|seen| without(seen, others)).filter(|usual| !usual.is_empty()) {
        let at = all.iter().take_while(|one| (100..USUAL_STATUS).contains(&one.status)).count();
        all.insert(at, ByStatus { status: USUAL_STATUS, latency: Latency::of(&usual) });
    }
    all
}

/// `raw`: of all answers, from sending.
pub(super) fn first_byte(harvests: &[ThreadResult], raw: Option<&Histogram<u64>>) -> Latency {
    let Some(raw) = raw else { return Latency::default() };
    let pieces = || harvests.iter().filter_map(|harvest| harvest.tally.parts.pieces.as_ref());
    let mut all = without(raw, pieces().map(|pieces| &pieces.whole));
    for pieces in pieces() {
        // All have the same bounds, so adding cannot fail.
        let _ = all.add(&pieces.first);
    }
    Latency::of(&all)
}

pub(super) fn by_url(plan: &Plan, harvests: &[ThreadResult]) -> Vec<ByUrl> {
    let parts = || harvests.iter().map(|harvest| &harvest.tally.parts);
    let count = parts().map(|parts: &Parts| parts.requests.len()).max().unwrap_or(0);
    let of = |at: usize| -> Vec<&OfRequest> { parts().filter_map(|parts| parts.requests.get(at)).collect() };
    let all = (0..count).map(|at| {
        let recorded = of(at);
        let latency = merge(recorded.iter().map(|one| &one.latency));
        let request = plan.requests.get(at).filter(|_| at < MAX_REQUESTS);
        ByUrl {
            request: request.map_or("others".into(), |spec| format!("{} {}", spec.method, spec.path)),
            statuses: sum(recorded.iter().flat_map(|one| &one.statuses)),
            latency: latency.as_ref().map(Latency::of).unwrap_or_default(),
        }
    });
    all.collect()
}

fn sum<'a>(counts: impl Iterator<Item = &'a (u16, u64)>) -> Vec<(u16, u64)> {
    let mut sums = std::collections::BTreeMap::new();
    for (status, count) in counts {
        *sums.entry(*status).or_insert(0) += count;
    }
    sums.into_iter().collect()
}

fn without<'a>(all: &Histogram<u64>, parts: impl Iterator<Item = &'a Histogram<u64>>) -> Histogram<u64> {
    let mut left = all.clone();
    for part in parts {
        // What is in a part is in the whole too, so this cannot fail.
        let _ = left.subtract(part);
    }
    left
}
