//! When a process whose workers do not come back asks for a successor by itself.
//!
//! One such worker is replaced and costs a thread. From the second one on it is assumed that there will be more, or that
//! they wait for each other, which a new process is free of.

use std::time::{Duration, Instant};

/// Workers that did not come back.
const ENOUGH: u64 = 2;
/// A process that is a successor itself does not ask earlier: what holds up one process after the other must not have them
/// pile up while they drain.
const LEAST_AGE: Duration = Duration::from_secs(10);
/// After a failure; then twice as long each time, up to the most.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(300);

pub(crate) struct Renewal {
    not_before: Instant,
    pause: Duration,
    due: Option<Instant>,
}

impl Renewal {
    pub(crate) fn new(is_successor: bool) -> Renewal {
        let now = Instant::now();
        let not_before = if is_successor { now + LEAST_AGE } else { now };
        Renewal { not_before, pause: FIRST_PAUSE, due: None }
    }

    /// A worker was given up; so many so far.
    pub(crate) fn stuck(&mut self, count: u64) {
        if count >= ENOUGH && self.due.is_none() {
            self.due = Some(self.not_before);
        }
    }

    /// A successor is being asked for; the next try, should it not take over.
    pub(crate) fn tried(&mut self) {
        if self.due.is_some() {
            self.due = Some(Instant::now() + self.pause);
            self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// How long until there is something to do.
    pub(crate) fn patience(&self) -> Option<Duration> {
        self.due.map(|due| due.saturating_duration_since(Instant::now()))
    }

    pub(crate) fn is_due(&self) -> bool {
        self.due.is_some_and(|due| Instant::now() >= due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_worker_is_one_too_many() {
        let mut renewal = Renewal::new(false);
        renewal.tried();
        renewal.stuck(1);
        assert!(!renewal.is_due() && renewal.patience().is_none());
        renewal.stuck(2);
        assert!(renewal.is_due());
        renewal.tried();
        renewal.stuck(3);
        assert!(!renewal.is_due());
        assert!(renewal.patience().is_some_and(|pause| pause > FIRST_PAUSE / 2));
        (0..20).for_each(|_| renewal.tried());
        assert!(renewal.patience().is_some_and(|pause| pause > LONGEST_PAUSE / 2 && pause <= LONGEST_PAUSE));
    }

    #[test]
    fn a_successor_waits_before_it_asks_for_one() {
        let mut renewal = Renewal::new(true);
        renewal.stuck(2);
        assert!(!renewal.is_due());
        assert!(renewal.patience().is_some_and(|pause| pause > LEAST_AGE / 2 && pause <= LEAST_AGE));
    }
}
