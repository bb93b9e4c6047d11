//! A rate that is not kept.

use crate::{Outcome, diagnosis::finding::finding, outcome::Finding, report::units::time};

/// A constant rate that the server does not keep up with: throughput stays flat and latency grows in a line.
pub(crate) fn open_model(outcome: &Outcome) -> Option<Finding> {
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
    if let Some(few) = few_connections(outcome, rate) {
        return Some(few);
    }
    let per_second = slope * 1000.0 / outcome.series.slot_ms.max(1) as f64;
    let mut evidence = vec![
        format!("the target was {rate:.0} requests/s, {achieved:.0} were answered"),
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

/// With no queue a request takes its least time; two in a queue take twice of it.
const NO_QUEUE: f64 = 1.6;

/// Requests take no longer than the first one, which found an idle server: what is short is connections to send them on.
fn few_connections(outcome: &Outcome, rate: f64) -> Option<Finding> {
    let (mean, least) = (outcome.latency.mean_us, outcome.latency.min_us);
    if mean > NO_QUEUE * least {
        return None;
    }
    let enough = (rate * mean / 1_000_000.0).ceil() * 1.5;
    let s = if outcome.connections == 1 { "" } else { "s" };
    let evidence = vec![
        format!("the target was {rate:.0} requests/s, {:.0} were answered", outcome.requests_per_second()),
        format!("each request takes {}, the fastest {}: none waits in the server", time(mean), time(least)),
    ];
    Some(finding(
        FEW_CONNECTIONS,
        format!(
            "too few connections: {} connection{s} carry no more at {} a request",
            outcome.connections,
            time(mean)
        ),
        evidence,
        &format!("give -c {enough:.0} or more, or with HTTP/2 more streams"),
    ))
}

const FEW_CONNECTIONS: &str = "few-connections";

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
