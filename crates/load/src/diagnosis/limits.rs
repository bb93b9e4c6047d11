//! Who is at its limit: the load generator, the server, or what is behind it.

use super::finding;
use crate::{Outcome, outcome::Finding, report::units::time};

/// A thread that works this share of the time has no room left.
const BUSY: f64 = 0.92;
/// A client that waits this share of the time for a CPU measures the waiting.
const WAITING: f64 = 0.25;

pub fn client_bound(outcome: &Outcome) -> Option<Finding> {
    let client = &outcome.client;
    let busy = client.busiest_thread >= BUSY;
    if outcome.seconds < 0.2 || (!busy && client.waiting_share < WAITING) {
        return None;
    }
    let mut evidence =
        vec![format!("the busiest thread worked {:.0} % of the time", client.busiest_thread * 100.0)];
    if client.waiting_share >= 0.01 {
        let share = client.waiting_share * 100.0;
        evidence.push(format!("threads were ready but without a CPU for {share:.0} % of the time"));
    }
    let steal = outcome.counters.steal_percent();
    if steal >= 1.0 {
        evidence.push(format!("the hypervisor took {steal:.1} % of the machine's CPU time"));
    }
    let remedy = if busy {
        "add threads (-t), or run the client on a machine of its own: the server can do more than this run shows"
    } else {
        "give client and server cores of their own (taskset), or run the client on another machine"
    };
    Some(finding(
        "client-bound",
        match busy {
            true => "the load generator is the limit: one of its threads has no time left",
            false => "the load generator is the limit: its threads wait for a CPU",
        },
        evidence,
        remedy,
    ))
}

/// Nobody works and the answer still takes long: the server waits for something.
pub fn upstream_bound(outcome: &Outcome) -> Option<Finding> {
    let server = outcome.server.as_ref()?;
    let cores = server.cpu_seconds / outcome.seconds.max(1e-9);
    let p50 = outcome.latency.at(50.0);
    let works_us = outcome.server_cpu_us()?;
    let idle = outcome.requests >= 20
        && cores < 0.4
        && outcome.client.busiest_thread < 0.6
        && outcome.client.waiting_share < 0.1;
    if outcome.seconds < 0.2 || !idle || p50 < 3_000.0 || p50 < 15.0 * works_us {
        return None;
    }
    let mut evidence = vec![
        format!("half of the requests take {} or longer", time(p50)),
        format!(
            "{} works {} of CPU for one, and is idle {:.0} % of the time",
            server.name,
            time(works_us),
            100.0 * (1.0 - cores).max(0.0)
        ),
    ];
    evidence.extend(in_proportion(outcome));
    Some(finding(
        "upstream-bound",
        "the server waits while requests are under way: for a timer, a lock, or something behind it",
        evidence,
        "measure the upstream itself with the same command; look at its latency, at locks, disks and at connection limits between the two",
    ))
}

/// Throughput that grows with the connections shows that requests take their time and do not queue.
fn in_proportion(outcome: &Outcome) -> Option<String> {
    let fewer = outcome.probe.last()?;
    let rate = outcome.requests_per_second();
    let connections = fewer.connections as f64 / outcome.connections.max(1) as f64;
    (fewer.requests_per_second < 1.2 * connections * rate).then(|| {
        format!(
            "{} connections get {:.0} requests/s and {} get {rate:.0}: nothing queues",
            fewer.connections, fewer.requests_per_second, outcome.connections
        )
    })
}
