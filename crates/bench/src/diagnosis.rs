//! Names causes of latency from what a run saw: the shape of the histogram, connect times, the series, the counters of
//! the kernel. A rule speaks only when the shape is unmistakable; a healthy server gets no finding.

mod bandwidth;
mod comb;
mod connections;
pub(crate) mod finding;
pub(super) mod limits;
mod pause;
pub mod plateau;
mod saturation;

use crate::{Outcome, outcome::Finding};

type Rule = fn(&Outcome) -> Option<Finding>;

/// In the order in which they are reported.
const RULES: [Rule; 11] = [
    connections::keep_alive_off,
    connections::closes_regularly,
    connections::slow_connects,
    plateau::delayed_ack,
    plateau::retransmission_timeout,
    comb::comb,
    pause::pause,
    connections::uneven,
    bandwidth::bandwidth,
    saturation::open_model,
    saturation::closed_loop,
];

/// A finding, and the one that says less of the same.
const EXPLAINS: &[(&str, &str)] = &[
    (connections::KEEP_ALIVE_OFF, connections::CLOSES),
    (connections::PENDING, "syn-lost"),
    // What goes over a full link is served no faster by fewer connections either.
    (bandwidth::NAME, "saturation"),
    // A client without a CPU stands still itself.
    (limits::CLIENT_BOUND, pause::NAME),
    // Pauses that come back with a period.
    ("comb", pause::NAME),
    // Connections that wait for a timer are as slow however many there are.
    (plateau::SENT_AGAIN_NAME, "saturation"),
];

/// Fewer requests than this show no shape.
const LEAST_REQUESTS: u64 = 20;

/// Fills `outcome.findings`. A client that is too slow is reported whatever came out, as long as something did; the
/// rest needs a shape.
pub fn diagnose(outcome: &mut Outcome) {
    let client_bound = if outcome.requests > 0 { limits::client_bound(outcome) } else { None };
    let mut findings: Vec<Finding> =
        [connections::pending(outcome), client_bound].into_iter().flatten().collect();
    if outcome.requests + outcome.failed() >= LEAST_REQUESTS {
        findings.extend(RULES.iter().filter_map(|rule| rule(outcome)));
    }
    // Findings that another one already explains.
    for (name, explained) in EXPLAINS {
        if findings.iter().any(|finding| finding.name == *name) {
            findings.retain(|finding| finding.name != *explained);
        }
    }
    if findings.iter().any(|finding| finding.name != plateau::UNEXPLAINED) {
        findings.retain(|finding| finding.name != plateau::UNEXPLAINED);
    }
    // Waiting for something behind it is what is left when nothing else explains the time.
    if findings.is_empty() {
        findings.extend(limits::upstream_bound(outcome));
    }
    outcome.findings = findings;
}
