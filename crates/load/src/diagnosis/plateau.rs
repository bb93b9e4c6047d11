//! Latencies that gather at a value that only a timer of TCP explains.

use super::finding;
use crate::{
    Outcome,
    outcome::{Finding, Latency},
    report::units::percent,
};

/// Requests that a plateau needs, and their least share in percent.
const LEAST: u64 = 5;
const LEAST_PERCENT: f64 = 0.2;
/// How many times more requests lie on the plateau than beside it.
const STANDS_OUT: u64 = 4;

/// Values in milliseconds: the plateau, and what is looked at below and above it.
struct Range {
    below: f64,
    from: f64,
    to: f64,
    above: f64,
}

/// How many lie on the plateau, when it stands out.
fn plateau(latency: &Latency, range: &Range) -> Option<u64> {
    let on = latency.between_ms(range.from, range.to);
    let beside = latency.between_ms(range.below, range.from) + latency.between_ms(range.to, range.above);
    let enough = on >= LEAST && on as f64 >= LEAST_PERCENT / 100.0 * latency.count as f64;
    (enough && on >= STANDS_OUT * beside).then_some(on)
}

/// The receiver delays its acknowledgement for 40 ms because it hopes to send it with data, while Nagle's algorithm
/// holds back the second half of a message until the first is acknowledged.
pub fn delayed_ack(outcome: &Outcome) -> Option<Finding> {
    let latency = &outcome.latency;
    let on = plateau(latency, &Range { below: 22.0, from: 37.0, to: 49.0, above: 75.0 })?;
    let mut evidence = vec![format!(
        "{} of the requests took 37 to 49 ms, {STANDS_OUT} times more than those beside",
        percent(on, latency.count)
    )];
    if outcome.counters.delayed_acks > 0 {
        evidence.push(format!("delayed acknowledgements on this machine: {}", outcome.counters.delayed_acks));
    }
    Some(finding(
        "delayed-ack",
        "40 ms plateau: Nagle's algorithm waits for a delayed acknowledgement",
        evidence,
        "set TCP_NODELAY on the side that writes head and body apart (server, or gateway towards its upstream), or write both at once",
    ))
}

/// A lost segment is sent again after 200 ms at the earliest.
pub fn retransmission_timeout(outcome: &Outcome) -> Option<Finding> {
    let latency = &outcome.latency;
    let on = plateau(latency, &Range { below: 110.0, from: 196.0, to: 235.0, above: 380.0 })?;
    let counters = &outcome.counters;
    let mut evidence = vec![format!(
        "{} of the requests took 196 to 235 ms, {STANDS_OUT} times more than those beside",
        percent(on, latency.count)
    )];
    evidence.push(if counters.timeouts + counters.retransmitted > 0 {
        format!(
            "on this machine {} retransmission timers fired, {} segments were sent again",
            counters.timeouts, counters.retransmitted
        )
    } else {
        "nothing was retransmitted on this machine: look between the server and what is behind it, or for a timer of 200 ms".into()
    });
    Some(finding(
        "retransmission-timeout",
        "200 ms plateau: segments are lost and sent again after the shortest retransmission timeout",
        evidence,
        "look for drops: `nstat -az TcpRetransSegs TcpExtTCPTimeouts`, `ip -s link`, full queues, an overloaded switch or virtual network card",
    ))
}
