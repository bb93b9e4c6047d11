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
        "the load generator is the limit: latency includes its own waiting",
        evidence,
        remedy,
    ))
}

/// A constant rate that the server does not keep up with: throughput stays flat and latency grows in a line.
pub fn saturation(outcome: &Outcome) -> Option<Finding> {
    let rate = outcome.rate?;
    let achieved = outcome.requests_per_second();
    if outcome.interrupted || outcome.seconds < 0.5 || achieved >= 0.95 * rate {
        return None;
    }
    let slots = &outcome.series.slots;
    let means: Vec<f64> = slots.iter().filter(|slot| slot.count > 0).map(|slot| slot.mean_us).collect();
    let (slope, fit) = line(&means);
    if slope <= 0.0 || fit < 0.7 {
        return None;
    }
    let per_second = slope * 1000.0 / outcome.series.slot_ms.max(1) as f64;
    let mut evidence = vec![
        format!("{rate:.0} requests/s were wanted, {achieved:.0} were answered"),
        format!("latency grows by {} each second, in a line (r2 {fit:.2})", time(per_second)),
    ];
    if outcome.unsent > 0 {
        evidence.push(format!("{} requests were due at the end and not sent", outcome.unsent));
    }
    Some(finding(
        "saturation",
        format!("saturation: the server answers {achieved:.0} requests/s and no more"),
        evidence,
        "measure latency below that rate (half of it is a fair start), or find what the server lacks: CPU, workers, connections to its upstream",
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
    let evidence = vec![
        format!("half of the requests take {} or longer", time(p50)),
        format!(
            "{} works {} of CPU for one, and is idle {:.0} % of the time",
            server.name,
            time(works_us),
            100.0 * (1.0 - cores).max(0.0)
        ),
    ];
    Some(finding(
        "upstream-bound",
        "the server waits: the time goes to something behind it",
        evidence,
        "measure the upstream itself with the same command; look at its latency, at locks, disks and at connection limits between the two",
    ))
}

/// Slope per step and r2 of the least-squares line.
fn line(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    if values.len() < 4 {
        return (0.0, 0.0);
    }
    let (mean_x, mean_y) = ((count - 1.0) / 2.0, values.iter().sum::<f64>() / count);
    let (mut xy, mut xx, mut yy) = (0.0, 0.0, 0.0);
    for (at, value) in values.iter().enumerate() {
        let (dx, dy) = (at as f64 - mean_x, value - mean_y);
        (xy, xx, yy) = (xy + dx * dy, xx + dx * dx, yy + dy * dy);
    }
    if yy == 0.0 { (0.0, 0.0) } else { (xy / xx, xy * xy / (xx * yy)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let (slope, fit) = line(&[1.0, 3.0, 5.0, 7.0, 9.0]);
        assert!((slope - 2.0).abs() < 1e-9 && (fit - 1.0).abs() < 1e-9);
        assert!(line(&[1.0, 9.0, 2.0, 8.0, 1.0, 9.0]).1 < 0.3);
        assert_eq!(line(&[5.0; 10]), (0.0, 0.0));
    }
}
