//! The same throughput with fewer connections.

use super::full::{Full, cores};
use crate::{
    Outcome,
    diagnosis::finding::finding,
    outcome::{Finding, after::Step},
    report::units::time,
};

/// With fewer connections the throughput is this share of the run's, or more: the others only wait.
const FLAT: f64 = 0.9;
/// Few answers are counted less exactly; this much is wanted of any number.
const FLAT_OF_FEW: f64 = 0.8;
/// A queue that costs less than this, in microseconds, does not matter: a fast server under as much load as it can take
/// is always full.
const LEAST_QUEUE_US: f64 = 1000.0;
/// How much longer than in proportion a request may take with fewer connections.
const OUT_OF_LINE: f64 = 1.3;

/// The run's throughput stays with half of its connections or fewer (see [`crate::probe`]), and latency falls in
/// proportion. One step that shows it is enough: what disturbs a step lowers its throughput.
pub(crate) fn closed_loop(outcome: &Outcome) -> Option<Finding> {
    let rate = usual_rate(outcome);
    let is_flat = |step: &Step| {
        let fewer = step.connections as f64 / outcome.connections.max(1) as f64;
        let flat = (FLAT - 1.0 / (step.requests.max(1) as f64).sqrt()).max(FLAT_OF_FEW);
        step.requests_per_second >= flat * rate
            && step.mean_us <= OUT_OF_LINE * fewer * outcome.latency.mean_us
    };
    let enough = outcome.probe.iter().find(|step| is_flat(step))?;
    if outcome.latency.mean_us - enough.mean_us < LEAST_QUEUE_US {
        return None;
    }
    let mut evidence: Vec<String> = outcome
        .probe
        .iter()
        .map(|step| explanation(step.connections, step.requests_per_second, step.mean_us))
        .collect();
    let whole = explanation(outcome.connections, outcome.requests_per_second(), outcome.latency.mean_us);
    evidence.push(format!("{whole}: throughput is flat, latency grows with the connections"));
    if let Some(server) = &outcome.server {
        evidence.push(format!(
            "{} uses {:.0} % of a core, its busiest thread {:.0} %",
            server.name,
            100.0 * cores(outcome),
            100.0 * server.busiest_thread
        ));
    }
    evidence.push(format!(
        "the load generator's busiest thread works {:.0} % of the time",
        outcome.client.busiest_thread * 100.0
    ));
    let full = Full::of(outcome);
    let remedy = format!(
        "{}; for a latency that is not a queue's, measure with -c {} or fewer, or with -R below {rate:.0}",
        full.remedy(),
        enough.connections
    );
    let title = format!("saturation: {rate:.0} requests/s and no more, {}", full.who());
    Some(finding("saturation", title, evidence, &remedy))
}

fn explanation(connections: usize, rate: f64, mean_us: f64) -> String {
    let s = if connections == 1 { "" } else { "s" };
    format!("{connections} connection{s}: {rate:.0} requests/s, {} each", time(mean_us))
}

/// The throughput to compare with: the whole run's or its second half's, whichever is higher, so that a pause or a cold
/// start does not pass for a limit.
fn usual_rate(outcome: &Outcome) -> f64 {
    let slots = &outcome.series.slots;
    // The last slot may be short.
    let late = slots.get(slots.len() / 2..slots.len().saturating_sub(1)).unwrap_or_default();
    let answers: u64 = late.iter().map(|slot| slot.count).sum();
    let seconds = late.len() as f64 * outcome.series.slot_ms as f64 / 1000.0;
    let late = if late.len() < 4 { 0.0 } else { answers as f64 / seconds };
    outcome.requests_per_second().max(late)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        outcome::{Latency, Series, SlotFigures},
        system::Machine,
    };

    /// 32 connections that got 1,000 requests/s; 8 and 16 got these.
    fn closed_loop_with(eight: f64, sixteen: f64) -> Outcome {
        let step = |connections: usize, requests_per_second: f64| Step {
            connections,
            seconds: 0.4,
            requests: (0.4 * requests_per_second) as u64,
            requests_per_second,
            mean_us: connections as f64 * 1e6 / requests_per_second,
        };
        Outcome {
            connections: 32,
            seconds: 10.0,
            requests: 10_000,
            latency: Latency { mean_us: 32_000.0, ..Latency::default() },
            probe: vec![step(8, eight), step(16, sixteen)],
            machine: Machine { cpus: 4, ..Machine::default() },
            ..Outcome::default()
        }
    }

    #[test]
    fn throughput_that_stays_is_saturation() {
        let remedy =
            |eight, sixteen| closed_loop(&closed_loop_with(eight, sixteen)).map(|found| found.remedy);
        assert!(remedy(980.0, 1010.0).is_some_and(|told| told.contains("with -c 8 or fewer")));
        assert!(remedy(700.0, 950.0).is_some_and(|told| told.contains("with -c 16 or fewer")));
        assert_eq!(remedy(250.0, 500.0), None, "twice the connections get twice as much");
        assert_eq!(remedy(600.0, 830.0), None);
        let unknown = Outcome { probe: Vec::new(), ..closed_loop_with(1000.0, 1000.0) };
        assert_eq!(closed_loop(&unknown), None);
    }

    #[test]
    fn a_short_queue_is_nobody_s_trouble() {
        let mut fast = closed_loop_with(1000.0, 1000.0);
        fast.latency.mean_us /= 40.0;
        fast.probe.iter_mut().for_each(|step| step.mean_us /= 40.0);
        assert_eq!(closed_loop(&fast), None);
    }

    #[test]
    fn a_pause_of_the_run_is_no_limit() {
        let slot = |count| SlotFigures { count, ..SlotFigures::default() };
        let mut paused = closed_loop_with(500.0, 1000.0);
        // Nothing for a while, then 190 in each tenth of a second.
        let slots = (0..100).map(|at| slot(if at < 45 { 0 } else { 190 })).collect();
        paused.series = Series { slot_ms: 100, slots, ..Series::default() };
        assert_eq!(closed_loop(&paused), None);
    }
}
