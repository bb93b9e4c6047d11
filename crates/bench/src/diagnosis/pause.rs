//! Moments in which nothing was answered.

use super::finding::finding;
use crate::{Outcome, engine::slot::bucket_floor, outcome::Finding, report::units::time};

pub(super) const NAME: &str = "pause";

/// Shorter ones do not matter, or are the machine's.
const SHORTEST_US: f64 = 50_000.0;
/// How much longer than usual a pause is.
const STANDS_OUT: f64 = 20.0;
/// With fewer connections one slow request looks like a pause.
const LEAST_CONNECTIONS: usize = 4;
/// Share of the connections that have to wait.
const WAITING: f64 = 0.5;
/// Several pauses take less than this share of a run.
const MOSTLY: f64 = 0.5;
/// So many are listed with time and length, the rest as a number.
const TOLD: usize = 4;

/// A pause, or several without a rhythm (those with one are a matter of [`super::comb`]); slow requests here and there are
/// none.
pub(super) fn pause(outcome: &Outcome) -> Option<Finding> {
    let least = SHORTEST_US.max(STANDS_OUT * outcome.latency.at(50.0));
    let all = pauses(&outcome.series.fine_max_us, outcome.series.fine_ms.max(1) as f64, least);
    let found = all.len();
    let mut pauses = all;
    pauses.retain(|pause| pause.is_silent(outcome) && pause.holds_all(outcome, least));
    // Where as much was slow at other moments it is not pauses that make the latency.
    if pauses.is_empty() || found > 2 * pauses.len() || outcome.connections < LEAST_CONNECTIONS {
        return None;
    }
    // Connections that are fast but for a slow request now and then are soon all slow, and then nothing happens most of
    // the time.
    let length_us = outcome.series.fine_max_us.len() as f64 * outcome.series.fine_ms.max(1) as f64 * 1000.0;
    if pauses.len() > 1 && pauses.iter().map(|pause| pause.us).sum::<f64>() > MOSTLY * length_us {
        return None;
    }
    let waited = outcome.latency.between_ms(least / 1000.0, f64::INFINITY);
    // A connection that waits for a lost segment waits alone.
    if 2 * outcome.sockets.retransmitted() >= waited {
        return None;
    }
    let moments = if pauses.len() == 1 { "at that moment" } else { "at those moments" };
    let mut found = finding(
        NAME,
        title(&pauses),
        vec![
            format!(
                "{waited} requests of {} connections waited {} or longer, nearly all {moments}",
                outcome.connections,
                time(least)
            ),
            format!("half of all requests take {}", time(outcome.latency.at(50.0))),
        ],
        &format!(
            "look into the server's log {moments}: garbage collection, a reload, a flush to disk, a full queue; and whether the machine itself stood still (steal)"
        ),
    );
    found.marks = pauses.iter().map(|pause| pause.at_ms / 1000.0).collect();
    Some(found)
}

fn title(pauses: &[Pause]) -> String {
    if let [only] = pauses {
        return format!("one pause of {}, {:.1} s into the run", time(only.us), only.at_ms / 1000.0);
    }
    let told: Vec<String> = pauses
        .iter()
        .take(TOLD)
        .map(|pause| format!("{} at {:.1} s", time(pause.us), pause.at_ms / 1000.0))
        .collect();
    let more = match pauses.len().saturating_sub(TOLD) {
        0 => String::new(),
        more => format!(", and {more} more"),
    };
    format!("{} pauses: {}{more}", pauses.len(), told.join(", "))
}

/// From when the first request that had to wait was sent, and how long the longest waited.
#[derive(Clone, Copy, Debug)]
struct Pause {
    at_ms: f64,
    us: f64,
}

/// What was slow and began before or during a pause belongs to it.
fn pauses(fine_max_us: &[u32], step_ms: f64, least_us: f64) -> Vec<Pause> {
    let mut found: Vec<Pause> = Vec::new();
    for (step, &us) in fine_max_us.iter().enumerate().filter(|(_, us)| f64::from(**us) >= least_us) {
        let (at_ms, us) = (step as f64 * step_ms, f64::from(us));
        match found.last_mut().filter(|pause| at_ms <= pause.at_ms + pause.us / 1000.0 + 2.0 * step_ms) {
            Some(pause) => pause.us = pause.us.max(us),
            None => found.push(Pause { at_ms, us }),
        }
    }
    found
}

impl Pause {
    /// Whether half of the connections had an answer that late when it was over.
    fn holds_all(&self, outcome: &Outcome, least_us: f64) -> bool {
        let slot_ms = outcome.series.slot_ms.max(1) as f64;
        let last = ((self.at_ms + self.us / 1000.0) / slot_ms) as usize;
        // The slowest is the last one, more or less, and slots are not cut to the millisecond.
        let slots = outcome.series.slots.get(last.saturating_sub(1)..).unwrap_or_default();
        let late = slots.iter().take(3).flat_map(|slot| &slot.steps);
        let late = late.filter(|(step, _)| bucket_floor(*step) as f64 / 1000.0 >= 0.9 * least_us);
        late.map(|(_, count)| *count).sum::<u64>() as f64 >= WAITING * outcome.connections as f64
    }

    /// Whether no request was sent and answered while it lasted: every request sent then waited until it was over.
    fn is_silent(&self, outcome: &Outcome) -> bool {
        let step_ms = outcome.series.fine_ms.max(1) as f64;
        let end_ms = self.at_ms + self.us / 1000.0;
        let mut inside = outcome
            .series
            .fine_max_us
            .iter()
            .enumerate()
            .map(|(step, &us)| (step as f64 * step_ms, f64::from(us)))
            // At the edges a request may have come just before or after.
            .filter(|&(at_ms, us)| {
                us > 0.0 && at_ms > self.at_ms + step_ms && at_ms + 2.0 * step_ms < end_ms
            });
        inside.all(|(at_ms, us)| at_ms + us / 1000.0 + 2.0 * step_ms >= end_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        engine::slot::bucket_of,
        outcome::{Latency, Series, SlotFigures},
    };

    fn outcome(fine: &[(usize, u32)], slow: u64) -> Outcome {
        let mut fine_max_us = vec![500; 300];
        // No request is sent while all wait.
        for &(at, us) in fine {
            fine_max_us[at..].iter_mut().take(us as usize / 10_000).for_each(|us| *us = 0);
        }
        fine.iter().for_each(|&(at, us)| fine_max_us[at] = us);
        let mut slots = vec![SlotFigures::default(); 31];
        for &(at, us) in fine {
            let step = (bucket_of(u64::from(us) * 1000), slow / fine.len() as u64);
            slots[(at * 10 + us as usize / 1000) / 100].steps.push(step);
        }
        Outcome {
            connections: 8,
            requests: 1000,
            latency: Latency {
                count: 1000,
                max_us: 3e5,
                steps: vec![(500.0, 1000 - slow), (250_000.0, slow)],
                ..Latency::default()
            },
            series: Series { slot_ms: 100, slots, fine_ms: 10, fine_max_us },
            ..Outcome::default()
        }
    }

    fn title_of(outcome: &Outcome) -> Option<String> {
        pause(outcome).map(|found| found.title)
    }

    #[test]
    fn one_moment_for_all() {
        assert_eq!(
            title_of(&outcome(&[(120, 250_000)], 8)).as_deref(),
            Some("one pause of 250.00ms, 1.2 s into the run")
        );
        assert_eq!(title_of(&outcome(&[(120, 250_000)], 1)), None, "one connection");
        assert_eq!(title_of(&outcome(&[], 0)), None);
    }

    #[test]
    fn several_moments_for_all() {
        let two = outcome(&[(20, 250_000), (220, 300_000)], 16);
        assert_eq!(title_of(&two).as_deref(), Some("2 pauses: 250.00ms at 0.2 s, 300.00ms at 2.2 s"));
        assert_eq!(pause(&two).map(|found| found.marks), Some(vec![0.2, 2.2]));
        let many: Vec<(usize, u32)> = [5, 40, 90, 130, 210, 270].map(|at| (at, 60_000)).into();
        let title =
            "6 pauses: 60.00ms at 0.1 s, 60.00ms at 0.4 s, 60.00ms at 0.9 s, 60.00ms at 1.3 s, and 2 more";
        assert_eq!(title_of(&outcome(&many, 48)).as_deref(), Some(title));
    }

    #[test]
    fn slow_requests_here_and_there_are_no_pauses() {
        assert_eq!(title_of(&outcome(&[(20, 250_000), (220, 250_000)], 4)), None, "two connections each");
        let mut stray = outcome(&[(20, 250_000), (220, 300_000)], 16);
        stray.series.fine_max_us[120] = 60_000;
        assert!(
            title_of(&stray).is_some_and(|title| title.starts_with("2 pauses: ")),
            "one slow request beside"
        );
        let mut busy = outcome(&[(20, 250_000), (220, 250_000)], 8);
        busy.series.fine_max_us.iter_mut().filter(|us| **us == 0).for_each(|us| *us = 500);
        assert_eq!(title_of(&busy), None, "others were answered meanwhile");
        let often: Vec<(usize, u32)> = [5, 40, 75, 110, 145, 180, 215, 250].map(|at| (at, 204_000)).into();
        assert_eq!(title_of(&outcome(&often, 64)), None, "most of the time");
        let mut lossy = outcome(&[(120, 250_000)], 8);
        lossy.sockets.sent_again = 6;
        assert_eq!(title_of(&lossy), None, "segments were lost");
    }
}
