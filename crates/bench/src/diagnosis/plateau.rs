//! Latencies that gather at a value that timers of TCP have. The shape alone says nothing: servers that take 40 or 200 ms have
//! it, too. A cause is named when counters of the run's own connections and a control run agree.

use super::finding::finding;
use crate::{
    Outcome,
    outcome::{Finding, after::Arm, latency::Latency},
    report::units::{percent, time},
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

/// An acknowledgement that waits for data to ride on is sent after 40 ms.
const DELAYED: Range = Range { below: 22.0, from: 37.0, to: 49.0, above: 75.0 };
/// A lost segment is sent again after 200 ms at the earliest.
const SENT_AGAIN: Range = Range { below: 110.0, from: 196.0, to: 235.0, above: 380.0 };

impl Range {
    fn count(&self, latency: &Latency) -> u64 {
        latency.between_ms(self.from, self.to)
    }

    /// How many lie on the plateau, when it stands out.
    fn plateau(&self, latency: &Latency) -> Option<u64> {
        let on = self.count(latency);
        let beside = latency.between_ms(self.below, self.from) + latency.between_ms(self.to, self.above);
        let enough = on >= LEAST && on as f64 >= LEAST_PERCENT / 100.0 * latency.count as f64;
        (enough && on >= STANDS_OUT * beside).then_some(on)
    }

    fn evidence(&self, on: u64, latency: &Latency) -> String {
        format!(
            "{} of the requests took {} to {} ms, {STANDS_OUT} times more than the neighbouring values",
            percent(on, latency.count),
            self.from,
            self.to
        )
    }
}

pub(crate) fn at_40_ms(latency: &Latency) -> u64 {
    DELAYED.count(latency)
}

pub(crate) fn at_200_ms(latency: &Latency) -> u64 {
    SENT_AGAIN.count(latency)
}

/// Whether a control run has something to find out.
pub(crate) fn is_suspected(outcome: &Outcome) -> bool {
    [DELAYED, SENT_AGAIN].iter().any(|range| range.plateau(&outcome.latency).is_some())
}

/// Nagle's algorithm holds back the second half of a message until the first is acknowledged, and the acknowledgement waits.
pub(crate) fn delayed_ack(outcome: &Outcome) -> Option<Finding> {
    let latency = &outcome.latency;
    let on = DELAYED.plateau(latency)?;
    let mut evidence = vec![DELAYED.evidence(on, latency)];
    let [delayed, quick] = outcome.control.as_slice() else {
        return Some(unexplained("40 ms", evidence));
    };
    evidence.extend([said(delayed, delayed.at_40_ms), said(quick, quick.at_40_ms)]);
    let pieces = delayed.sockets.data_segments_in as f64 / delayed.requests.max(1) as f64;
    if !moves(delayed, quick, on as f64 / latency.count.max(1) as f64) || pieces < 1.2 {
        let is_there = is_on_it(delayed, delayed.at_40_ms, on as f64 / latency.count.max(1) as f64);
        return is_there.then(|| unexplained("40 ms", evidence));
    }
    evidence.push(format!("an answer came in {pieces:.1} segments"));
    Some(finding(
        "delayed-ack",
        "40 ms plateau: Nagle's algorithm at the server waits for a delayed acknowledgement",
        evidence,
        "set TCP_NODELAY at the server, on the connection it has accepted and not only on the socket that listens, or let it write head and body at once",
    ))
}

/// Whether quick acknowledgements remove the plateau.
fn moves(delayed: &Arm, quick: &Arm, share: f64) -> bool {
    let of = |arm: &Arm| arm.at_40_ms as f64 / arm.requests.max(1) as f64;
    delayed.at_40_ms >= 3 && of(delayed) >= 0.5 * share && of(quick) <= 0.1 * of(delayed)
}

fn said(arm: &Arm, slow: u64) -> String {
    format!(
        "on one connection with {} acknowledgements: {slow} of {} requests there, half of them within {}",
        arm.acknowledgements,
        arm.requests,
        time(arm.p50_us)
    )
}

/// Segments of this run's connections were sent again about as often as requests were late by the timer.
pub(crate) fn retransmission_timeout(outcome: &Outcome) -> Option<Finding> {
    let latency = &outcome.latency;
    let on = SENT_AGAIN.plateau(latency)?;
    let sockets = &outcome.sockets;
    let mut evidence = vec![SENT_AGAIN.evidence(on, latency)];
    evidence.push(format!(
        "of {} connections of this run the load generator sent {} segments again, the server {}",
        sockets.seen, sockets.sent_again, sockets.server_sent_again
    ));
    evidence.extend(outcome.control.iter().map(|arm| said(arm, arm.at_200_ms)));
    // Late requests of the control run have to be explained by its own connection.
    let late: u64 = outcome.control.iter().map(|arm| arm.at_200_ms).sum();
    let again: u64 = outcome.control.iter().map(|arm| arm.sockets.retransmitted()).sum();
    if outcome.control.is_empty() || 2 * sockets.retransmitted() < on || 2 * again < late {
        let share = on as f64 / latency.count.max(1) as f64;
        let is_there = outcome.control.first().is_none_or(|arm| is_on_it(arm, arm.at_200_ms, share));
        return is_there.then(|| unexplained("200 ms", evidence));
    }
    Some(finding(
        SENT_AGAIN_NAME,
        "200 ms plateau: segments are lost and sent again after the shortest retransmission timeout",
        evidence,
        "look for drops: `nstat -az TcpRetransSegs TcpExtTCPTimeouts`, `ip -s link`, full queues, an overloaded switch or virtual network card",
    ))
}

/// Whether one connection alone sees the plateau, too. If not, it comes with the load: queues have any length.
fn is_on_it(arm: &Arm, slow: u64, share: f64) -> bool {
    // Of few requests a small share may well show none.
    let expected = share * arm.requests as f64;
    expected < 5.0 || slow as f64 >= 0.3 * expected
}

pub(crate) const SENT_AGAIN_NAME: &str = "retransmission-timeout";
pub(crate) const UNEXPLAINED: &str = "unexplained-plateau";

fn unexplained(value: &str, evidence: Vec<String>) -> Finding {
    finding(
        UNEXPLAINED,
        format!("latency sits at {value}; its cause is not visible from here"),
        evidence,
        "ask the server behind it with the same command; look for a sleep, a timer or a poll of that length",
    )
}
