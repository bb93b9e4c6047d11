//! Spikes that come back with a period: something with a timer holds requests up.

use super::finding::finding;
use crate::{
    Outcome,
    outcome::Finding,
    report::units::{median, time},
};

const LEAST_SPIKES: usize = 4;
/// A spike is this many times the usual step, and at least this much above it.
const TIMES_USUAL: f64 = 3.0;
const ABOVE_US: f64 = 2_000.0;
/// Spikes closer than this are one.
const MERGE_MS: f64 = 40.0;
/// A tooth is at least this share of the tallest.
const TALL: f64 = 0.4;
const SHORTEST_PERIOD_MS: f64 = 80.0;
/// How far an interval may be off, as a share of the period, and in milliseconds.
const OFF: f64 = 0.1;
const OFF_MS: f64 = 15.0;

pub(super) fn comb(outcome: &Outcome) -> Option<Finding> {
    let series = &outcome.series;
    let usual: Vec<f64> = series.fine_max_us.iter().filter(|&&us| us > 0).map(|&us| f64::from(us)).collect();
    let usual = median(&usual);
    let threshold = (TIMES_USUAL * usual).max(usual + ABOVE_US);
    let spikes = spikes(&series.fine_max_us, series.fine_ms as f64, threshold);
    let spikes = tall(spikes);
    let period = period(&spikes.iter().map(|spike| spike.at_ms).collect::<Vec<f64>>())?;
    let heights: Vec<f64> = spikes.iter().map(|spike| spike.us).collect();
    if !holds_all(outcome, threshold, &heights) {
        return None;
    }
    let evidence = vec![
        format!("{} spikes, one every {}", spikes.len(), time(period * 1000.0)),
        format!(
            "a spike reaches {} (median), between them a request takes at most {}",
            time(median(&heights)),
            time(usual)
        ),
    ];
    let mut finding = finding(
        "comb",
        format!(
            "spikes with a period of {}: something with a timer holds requests up",
            time(period * 1000.0)
        ),
        evidence,
        "look for what runs at that interval on the server: metrics scrape, log flush or rotation, health checks, garbage collection, cron, a configuration sync",
    );
    finding.marks = spikes.iter().map(|spike| spike.at_ms / 1000.0).collect();
    Some(finding)
}

/// A server that stands still holds up every request meanwhile; a slow request here and there may have a rhythm as
/// well, when each so many-th is slow.
fn holds_all(outcome: &Outcome, threshold_us: f64, heights: &[f64]) -> bool {
    let connections = outcome.connections as f64;
    let expected = match outcome.rate {
        Some(rate) => (rate * median(heights) / 1e6).min(connections),
        None => connections,
    };
    let slow = outcome.latency.between_ms(threshold_us / 1000.0, f64::INFINITY) as f64;
    expected < LEAST_HELD || slow >= HELD * expected * heights.len() as f64
}

/// Fewer requests that a spike would hold up prove nothing.
const LEAST_HELD: f64 = 3.0;
/// At least this share is held up; others may be on another worker.
const HELD: f64 = 0.25;

struct Spike {
    at_ms: f64,
    us: f64,
}

fn spikes(steps: &[u32], step_ms: f64, threshold: f64) -> Vec<Spike> {
    let mut spikes: Vec<Spike> = Vec::new();
    let mut end_ms = f64::NEG_INFINITY;
    for (at, &us) in steps.iter().enumerate() {
        let us = f64::from(us);
        if us <= threshold {
            continue;
        }
        let at_ms = at as f64 * step_ms;
        match spikes.last_mut().filter(|_| at_ms - end_ms <= MERGE_MS) {
            Some(spike) => spike.us = spike.us.max(us),
            None => spikes.push(Spike { at_ms, us }),
        }
        end_ms = at_ms;
    }
    spikes
}

/// The teeth of a comb are of about one length; what is much shorter is noise of the machine.
fn tall(mut spikes: Vec<Spike>) -> Vec<Spike> {
    let mut heights: Vec<f64> = spikes.iter().map(|spike| spike.us).collect();
    heights.sort_by(|a, b| b.total_cmp(a));
    heights.truncate(LEAST_SPIKES + 1);
    let least = TALL * median(&heights);
    spikes.retain(|spike| spike.us >= least);
    spikes
}

/// The period, when nearly all intervals are it or a small multiple of it.
fn period(at_ms: &[f64]) -> Option<f64> {
    if at_ms.len() < LEAST_SPIKES {
        return None;
    }
    let intervals: Vec<f64> =
        at_ms.windows(2).filter_map(|pair| Some(pair.last()? - pair.first()?)).collect();
    let guess = median(&intervals);
    if guess < SHORTEST_PERIOD_MS {
        return None;
    }
    let tolerance = (OFF * guess).max(OFF_MS);
    let near = |interval: f64, times: f64| (interval - times * guess).abs() <= tolerance;
    let single: Vec<f64> = intervals.iter().copied().filter(|&interval| near(interval, 1.0)).collect();
    let fitting =
        intervals.iter().filter(|&&interval| (1..=3).any(|times| near(interval, f64::from(times)))).count();
    let enough = single.len() * 10 >= intervals.len() * 7 && fitting * 10 >= intervals.len() * 8;
    enough.then(|| single.iter().sum::<f64>() / single.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods() {
        assert_eq!(period(&[0.0, 500.0, 1000.0, 1510.0, 2000.0]), Some(500.0));
        assert_eq!(period(&[0.0, 500.0, 1000.0, 2000.0, 2500.0, 3000.0]), Some(500.0));
        assert_eq!(period(&[0.0, 500.0, 1000.0]), None, "too few");
        assert_eq!(period(&[0.0, 310.0, 1000.0, 1100.0, 2400.0, 2900.0]), None, "no rhythm");
        assert_eq!(period(&[0.0, 50.0, 100.0, 150.0, 200.0]), None, "too fast to be a timer");
    }

    #[test]
    fn neighbours_are_one_spike() {
        let mut steps = vec![100; 100];
        for at in [10, 11, 13, 60] {
            steps[at] = 30_000;
        }
        let found: Vec<f64> = spikes(&steps, 10.0, 2100.0).iter().map(|spike| spike.at_ms).collect();
        assert_eq!(found, [100.0, 600.0]);
    }
}
