//! One moment in which nothing was answered.

use super::finding;
use crate::{Outcome, outcome::Finding, report::units::time};

/// Shorter ones do not matter, or are the machine's.
const SHORTEST_US: f64 = 50_000.0;
/// How much longer than usual a pause is.
const STANDS_OUT: f64 = 20.0;
/// With fewer connections one slow request looks like a pause.
const LEAST_CONNECTIONS: usize = 4;
/// Share of the connections that have to wait.
const WAITING: f64 = 0.5;

/// A single pause. Several are a matter of [`super::comb`], and slow requests here and there are none.
pub fn pause(outcome: &Outcome) -> Option<Finding> {
    let series = &outcome.series;
    let least = SHORTEST_US.max(STANDS_OUT * outcome.latency.at(50.0));
    let slow: Vec<(usize, f64)> = series
        .fine_max_us
        .iter()
        .map(|us| f64::from(*us))
        .enumerate()
        .filter(|(_, us)| *us >= least)
        .collect();
    let (first, longest) = (slow.first()?.0, slow.iter().map(|(_, us)| *us).fold(0.0, f64::max));
    let step_ms = series.fine_ms.max(1) as f64;
    // All that was slow began before or during the one pause.
    let last = slow.last()?.0;
    if (last - first) as f64 * step_ms > longest / 1000.0 + 2.0 * step_ms {
        return None;
    }
    let waited = outcome.latency.between_ms(least / 1000.0, f64::INFINITY);
    let is_all = waited as f64 >= WAITING * outcome.connections as f64;
    if outcome.connections < LEAST_CONNECTIONS || !is_all {
        return None;
    }
    let at = first as f64 * step_ms / 1000.0;
    let mut found = finding(
        "pause",
        format!("one pause of {}, {at:.1} s into the run", time(longest)),
        vec![
            format!(
                "{waited} requests of {} connections waited {} or longer, all at that moment",
                outcome.connections,
                time(least)
            ),
            format!("half of all requests take {}", time(outcome.latency.at(50.0))),
        ],
        "look into the server's log at that moment: garbage collection, a reload, a flush to disk, a full queue; and whether the machine itself stood still (steal)",
    );
    found.marks = vec![at];
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::{Latency, Series};

    fn outcome(fine: &[(usize, u32)], slow: u64) -> Outcome {
        let mut fine_max_us = vec![500; 300];
        fine.iter().for_each(|&(at, us)| fine_max_us[at] = us);
        Outcome {
            connections: 8,
            requests: 1000,
            latency: Latency {
                count: 1000,
                max_us: 3e5,
                steps: vec![(500.0, 1000 - slow), (250_000.0, slow)],
                ..Latency::default()
            },
            series: Series { fine_ms: 10, fine_max_us, ..Series::default() },
            ..Outcome::default()
        }
    }

    #[test]
    fn one_moment_for_all() {
        let title = |outcome: &Outcome| pause(outcome).map(|found| found.title);
        assert_eq!(
            title(&outcome(&[(120, 250_000), (121, 240_000)], 8)).as_deref(),
            Some("one pause of 250.00ms, 1.2 s into the run")
        );
        assert_eq!(title(&outcome(&[(120, 250_000)], 1)), None, "one connection");
        assert_eq!(title(&outcome(&[(20, 250_000), (220, 250_000)], 8)), None, "two moments");
        assert_eq!(title(&outcome(&[], 0)), None);
    }
}
