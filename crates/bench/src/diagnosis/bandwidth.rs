//! Large answers that are on their way for most of their time.

use super::finding::finding;
use crate::{
    Outcome,
    outcome::Finding,
    report::units::{bytes, time},
};

pub(super) const NAME: &str = "bandwidth-bound";

const LARGE_BYTES: u64 = 64 << 10;
/// Faster answers are not worth a finding.
const LEAST_US: f64 = 5000.0;
/// Of its time an answer is on its way for at least this share.
const ON_THE_WAY: f64 = 0.5;
/// A side that works less has time to send and to receive faster.
const IDLE: f64 = 0.6;
/// Spread of the throughput over time.
const STEADY: f64 = 0.2;

/// A throughput in bytes that stays, while neither side is short of CPU.
pub(super) fn bandwidth(outcome: &Outcome) -> Option<Finding> {
    let each = outcome.bytes_in / outcome.requests.max(1);
    let (first, whole) = (outcome.first_byte.at(50.0), outcome.latency.at(50.0));
    let is_late = outcome.first_byte.count > 0 && whole >= LEAST_US && first <= (1.0 - ON_THE_WAY) * whole;
    if outcome.rate.is_some() || each < LARGE_BYTES || !is_late {
        return None;
    }
    let server = outcome.server.as_ref().map_or(0.0, |server| server.busiest_thread + server.busiest_waited);
    let client = outcome.client.busiest_thread.max(outcome.client.waiting_share);
    if server > IDLE || client > IDLE || spread(outcome) > STEADY {
        return None;
    }
    let rate = outcome.bytes_in as f64 / outcome.seconds.max(1e-9);
    Some(finding(
        NAME,
        format!(
            "bandwidth-bound: {}/s in all, {}/s on a connection",
            bytes(rate),
            bytes(rate / outcome.connections.max(1) as f64)
        ),
        vec![
            format!(
                "an answer has {}; its first byte comes after {}, its last after {}",
                bytes(each as f64),
                time(first),
                time(whole)
            ),
            "neither the load generator nor, as far as it is seen, the server is short of CPU".to_owned(),
        ],
        "look at the link, at traffic shaping and at the server's own rate limit; smaller or compressed answers are faster",
    ))
}

/// Of the answers in a slot of time, as a share of the mean. Slots of few answers are taken together.
fn spread(outcome: &Outcome) -> f64 {
    let counts: Vec<f64> = outcome.series.slots.iter().map(|slot| slot.count as f64).collect();
    let groups: Vec<f64> =
        counts.chunks_exact((counts.len() / 4).max(1)).map(|group| group.iter().sum()).collect();
    let mean = groups.iter().sum::<f64>() / groups.len().max(1) as f64;
    let deviation = groups.iter().map(|group| (group - mean).abs()).fold(0.0, f64::max);
    // Few answers are counted less exactly.
    if mean > 0.0 { deviation / mean - 1.0 / mean.sqrt() } else { f64::INFINITY }
}
