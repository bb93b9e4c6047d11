//! Which side is at its limit: the load generator, the server, or what is behind it.

use super::finding::finding;
use crate::{
    Outcome,
    outcome::{Finding, Server},
    report::units::time,
};

/// A thread that works this share of the time has no room left.
const BUSY: f64 = 0.92;
/// A client that waits this share of the time for a CPU measures the waiting.
const WAITING: f64 = 0.25;

pub(crate) const CLIENT_BOUND: &str = "client-bound";

pub(crate) fn client_bound(outcome: &Outcome) -> Option<Finding> {
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
        "add threads (-t), or run the client on a separate machine: the server can do more than this run \
         shows"
    } else {
        "pin client and server to separate cores (taskset), or run the client on another machine"
    };
    Some(finding(
        CLIENT_BOUND,
        match busy {
            true => "the load generator is the limit: one of its threads has no time left",
            false => "the load generator is the limit: its threads wait for a CPU",
        },
        evidence,
        remedy,
    ))
}

/// Neither side is busy and the answer still takes long: the server waits for something.
pub(crate) fn upstream_bound(outcome: &Outcome) -> Option<Finding> {
    let server = outcome.server.as_ref()?;
    let cores = server.cpu_seconds / outcome.seconds.max(1e-9);
    let p50 = outcome.latency.at(50.0);
    let works_us = outcome.server_cpu_us()?;
    let idle = outcome.requests >= 20
        && cores < 0.4
        && outcome.client.busiest_thread < 0.6
        && outcome.client.waiting_share < 0.1;
    // Children whose parent did not wait for them may have worked.
    let may_work_us = works_us + if server.comes_and_goes { unknown_us(outcome, server) } else { 0.0 };
    if outcome.seconds < 0.2 || !idle || p50 < 3_000.0 || p50 < 15.0 * may_work_us {
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

/// For each request, the CPU time of this machine that was used neither by the load generator nor by what is seen as
/// the server.
fn unknown_us(outcome: &Outcome, server: &Server) -> f64 {
    let all = outcome.counters.busy_share() * outcome.machine.cpus as f64 * outcome.seconds;
    let unknown = all - outcome.client.cpu_seconds - server.cpu_seconds;
    unknown.max(0.0) * 1e6 / outcome.requests.max(1) as f64
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

/// Whether the load generator is what was measured.
pub(crate) fn is_client_bound(outcome: &Outcome) -> bool {
    client_bound(outcome).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        outcome::Latency,
        system::{Counters, Machine},
    };

    /// 40 requests of 30 ms in 4 s on two CPUs, of which this share was busy.
    fn idle_server(busy: u64, comes_and_goes: bool) -> Outcome {
        Outcome {
            seconds: 4.0,
            requests: 40,
            latency: Latency { count: 40, max_us: 3e4, steps: vec![(3e4, 40)], ..Latency::default() },
            server: Some(Server { cpu_seconds: 0.02, comes_and_goes, ..Server::default() }),
            counters: Counters { cpu_total: 800, cpu_idle: 800 - busy, ..Counters::default() },
            machine: Machine { cpus: 2, ..Machine::default() },
            ..Outcome::default()
        }
    }

    #[test]
    fn work_that_is_not_seen_is_not_denied() {
        assert!(upstream_bound(&idle_server(2, true)).is_some(), "nobody works");
        assert!(upstream_bound(&idle_server(80, false)).is_some(), "somebody else does");
        // 20 ms of CPU for each request that may be its children's.
        assert_eq!(upstream_bound(&idle_server(80, true)), None);
    }
}
