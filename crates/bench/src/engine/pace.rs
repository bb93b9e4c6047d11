//! The open model: when each request is due, whatever became of the earlier ones.

use crate::{
    Plan,
    plan::{Arrivals, stages::Ramp},
    template::Random,
};

/// The schedule of one thread. Threads are offset so that together they keep an even rhythm.
#[derive(Debug)]
pub(crate) struct Pace {
    due: u64,
    /// The number of the next request among those of all threads; with Poisson arrivals not a whole one.
    number: f64,
    threads: f64,
    times: Times,
    /// Draws the distances of Poisson arrivals.
    random: Option<Random>,
    /// What would be due then or later is not of this run.
    end: u64,
}

#[derive(Debug)]
enum Times {
    /// Nanoseconds between the requests of all threads.
    Even(f64),
    Ramp(Ramp),
}

impl Pace {
    /// `None` in a closed loop.
    pub(crate) fn of(plan: &Plan, thread: usize) -> Option<Pace> {
        let times = match (plan.options.stages.as_slice(), plan.rate) {
            ([], None) => return None,
            ([], Some(rate)) => Times::Even(1e9 / rate),
            (stages, _) => Times::Ramp(Ramp::of(stages)),
        };
        let seed = 0x706f_6973 + thread as u64;
        let random = (plan.options.arrivals == Arrivals::Poisson).then(|| Random::new(seed));
        let end = plan.duration.map_or(u64::MAX, super::clock::nanos);
        Some(Pace { end, ..Pace::new(times, random, thread, plan.threads) })
    }

    fn new(times: Times, random: Option<Random>, thread: usize, threads: usize) -> Pace {
        let mut pace =
            Pace { due: 0, number: thread as f64, threads: threads as f64, times, random, end: u64::MAX };
        if pace.random.is_some() {
            // The first waits as long as any other.
            pace.number = 0.0;
            pace.advance();
        } else {
            pace.spread_backlog();
        }
        pace
    }

    /// When the next request is due.
    pub(crate) fn due(&self) -> u64 {
        self.due
    }

    /// Whether the next request was due when a run ended that was over at `end`, a moment after its time perhaps.
    pub(crate) fn is_overdue(&self, end: u64) -> bool {
        self.due < end.min(self.end)
    }

    pub(crate) fn advance(&mut self) {
        self.number += match &mut self.random {
            None => self.threads,
            // What all threads do together has the distances of one process again.
            Some(random) => self.threads * exponential(random),
        };
        self.spread_backlog();
    }

    fn spread_backlog(&mut self) {
        self.due = match &mut self.times {
            Times::Even(each_ns) => (*each_ns * self.number) as u64,
            Times::Ramp(ramp) => ramp.moment(self.number),
        };
    }
}

/// With a mean of 1.
fn exponential(random: &mut Random) -> f64 {
    // 53 bits, from above 0 to 1.
    let share = ((random.number() >> 11) + 1) as f64 / (1u64 << 53) as f64;
    -share.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_interleave() {
        let mut all = Vec::new();
        for thread in 0..3 {
            let mut pace = Pace::new(Times::Even(1e6), None, thread, 3);
            for _ in 0..4 {
                all.push(pace.due());
                pace.advance();
            }
        }
        all.sort_unstable();
        assert_eq!(all, (0..12).map(|at| at * 1_000_000).collect::<Vec<u64>>());
    }

    #[test]
    fn poisson_arrivals_have_the_mean_and_the_spread() {
        let mut pace = Pace::new(Times::Even(1e6), Some(Random::new(7)), 1, 2);
        let mut gaps = Vec::new();
        for _ in 0..10_000 {
            let before = pace.due();
            pace.advance();
            gaps.push((pace.due() - before) as f64 / 1e6);
        }
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        // Of two threads each has every second request: 2 ms apart, and as much spread.
        assert!((mean - 2.0).abs() < 0.1, "{mean}");
        assert!((deviation.sqrt() / mean - 1.0).abs() < 0.1, "{}", deviation.sqrt());
    }
}
