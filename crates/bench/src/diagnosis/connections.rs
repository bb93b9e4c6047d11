//! What connections show: how long they took to open, how long they lived, whether all are treated alike.

use super::finding::finding;
use crate::{
    Outcome,
    outcome::Finding,
    report::units::{percent, spread, time},
};

/// SYN is sent again after 1 s, then after 2 s more, then after 4 s more: ranges in milliseconds.
const SYN_AGAIN: [(f64, f64, &str); 3] =
    [(990.0, 1300.0, "1 s"), (2950.0, 3400.0, "3 s"), (6900.0, 7500.0, "7 s")];

pub(crate) fn slow_connects(outcome: &Outcome) -> Option<Finding> {
    let connect = &outcome.connect;
    let steps: Vec<(u64, &str)> = SYN_AGAIN
        .iter()
        .map(|&(low, high, name)| (connect.between_ms(low, high), name))
        .filter(|(count, _)| *count > 0)
        .collect();
    let late: u64 = steps.iter().map(|(count, _)| count).sum();
    // Others of that length would mean a slow server, not a lost SYN.
    let between = connect.between_ms(300.0, 990.0) + connect.between_ms(1300.0, 2950.0);
    if late < 2 || between > late / 2 {
        return None;
    }
    let mut evidence: Vec<String> = steps
        .iter()
        .map(|(count, name)| format!("{count} of {} connects took about {name}", connect.count))
        .collect();
    let counters = &outcome.counters;
    if counters.listen_overflows + counters.listen_drops > 0 {
        evidence.push(format!(
            "the accept queue of a server on this machine was full {} times",
            counters.listen_overflows.max(counters.listen_drops)
        ));
    }
    if counters.syn_retransmitted > 0 {
        evidence.push(format!("{} SYN segments were sent again", counters.syn_retransmitted));
    }
    Some(finding(
        "syn-lost",
        "connects of 1 s or 3 s: the first SYN was lost, or the accept queue was full",
        evidence,
        "raise net.core.somaxconn and the server's listen backlog, let it accept faster (more workers), and check firewalls and conntrack: `nstat -az TcpExtListenOverflows`",
    ))
}

pub(crate) const PENDING: &str = "connects-pending";
pub(crate) const KEEP_ALIVE_OFF: &str = "keep-alive-off";
pub(crate) const CLOSES: &str = "connection-closes";

pub(super) fn keep_alive_off(outcome: &Outcome) -> Option<Finding> {
    if !outcome.keep_alive || outcome.requests < 20 {
        return None;
    }
    let per_connection = outcome.requests as f64 / outcome.server_closes.max(1) as f64;
    if outcome.server_closes * 20 < outcome.requests {
        return None;
    }
    let evidence = vec![
        format!(
            "the server closed {} connections in {} requests, one after {per_connection:.1} on average",
            outcome.server_closes, outcome.requests
        ),
        format!(
            "a connect takes {} (p50), {} (p99)",
            time(outcome.connect.at(50.0)),
            time(outcome.connect.at(99.0))
        ),
    ];
    Some(finding(
        KEEP_ALIVE_OFF,
        "keep-alive is off: connections are opened again and again",
        evidence,
        "turn keep-alive on at the server (nginx: keepalive_timeout above 0, keepalive_requests 10000 or more)",
    ))
}

/// Connections that never opened: whatever else was seen is about the others.
pub(super) fn pending(outcome: &Outcome) -> Option<Finding> {
    if outcome.unopened == 0 || outcome.interrupted {
        return None;
    }
    let counters = &outcome.counters;
    Some(finding(
        PENDING,
        format!("{} of {} connections never opened", outcome.unopened, outcome.connections),
        vec![format!(
            "queues of listeners on this machine overflowed {} times, and {} connects were dropped there",
            counters.listen_overflows, counters.listen_drops
        )],
        "let the server accept faster, raise its listen backlog and net.core.somaxconn, and check firewalls; `ss -ltn` shows the queues",
    ))
}

/// A server that closes after fewer answers than that costs its clients something; nginx's own limit is 1,000.
const FEW_ANSWERS: u64 = 1000;

/// The server closes each connection after the same number of answers.
pub(crate) fn closes_regularly(outcome: &Outcome) -> Option<Finding> {
    let lives = &outcome.lives;
    let after = lives
        .regular()
        .filter(|&after| outcome.keep_alive && (after < FEW_ANSWERS || lives.with_loss > 0))?;
    let unannounced = lives.closed - lives.announced;
    let how = match (unannounced, lives.with_loss) {
        (0, _) => "with notice (Connection: close)",
        (_, 0) => "without notice",
        _ => "without notice, while requests are under way",
    };
    let mut evidence =
        vec![format!("{} connections ended after {} to {} answers", lives.closed, lives.fewest, lives.most)];
    if lives.with_loss > 0 {
        evidence.push(format!("{} requests were lost with them", lives.with_loss));
    }
    Some(finding(
        CLOSES,
        format!("the server closes each connection after {after} answers, {how}"),
        evidence,
        "raise the server's limit of requests on a connection (nginx: keepalive_requests); one that closes without notice should say Connection: close in its last answer",
    ))
}

/// Fewer answers than this say nothing about a connection.
const LEAST_ANSWERS: u64 = 10;

/// Two groups of connections of which one is slower: workers with unequal shares.
pub(super) fn uneven(outcome: &Outcome) -> Option<Finding> {
    let mut means: Vec<f64> = outcome
        .per_connection
        .iter()
        .filter(|(count, _)| *count >= LEAST_ANSWERS)
        .map(|&(_, mean)| mean)
        .collect();
    means.sort_by(f64::total_cmp);
    let least = (means.len() / 10).max(2);
    let last = means.len().checked_sub(least)?;
    let split = (least..=last).max_by(|&a, &b| gap(&means, a).total_cmp(&gap(&means, b)))?;
    let (fast, slow) = means.split_at_checked(split)?;
    let ((fast_mean, fast_spread), (slow_mean, slow_spread)) = (spread(fast), spread(slow));
    let empty = slow.first()? - fast.last()?;
    // The gap between the groups is wide, and wider than the groups themselves.
    if slow_mean < 1.5 * fast_mean || slow_mean - fast_mean < 100.0 {
        return None;
    }
    if empty < 2.0 * fast_spread.max(slow_spread) || empty < 0.3 * fast_mean {
        return None;
    }
    let evidence = vec![
        format!("{} connections usually take {}", fast.len(), time(fast_mean)),
        format!(
            "{} connections usually take {}, {:.1} times as long",
            slow.len(),
            time(slow_mean),
            slow_mean / fast_mean
        ),
        format!("none lies between {} and {}", time(*fast.last()?), time(*slow.first()?)),
        format!(
            "{} of the connections are in the slow group",
            percent(slow.len() as u64, means.len() as u64)
        ),
    ];
    Some(finding(
        "uneven-connections",
        "two kinds of connections: one group is slower, as with workers of unequal load",
        evidence,
        "spread connections evenly: more of them than workers, SO_REUSEPORT with as many workers as cores, no worker sharing its core with something else",
    ))
}

/// How far apart neighbours are, as a share of the lower.
fn gap(sorted: &[f64], at: usize) -> f64 {
    match (at.checked_sub(1).and_then(|below| sorted.get(below)), sorted.get(at)) {
        (Some(&low), Some(&high)) if low > 0.0 => (high - low) / low,
        _ => 0.0,
    }
}
