//! What the kernel reports about a thread: how long it ran, how long it waited for a processor, and what it
//! does now.

use std::{fs::File, os::unix::fs::FileExt, time::Duration};

/// Since the thread began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Scheduled {
    pub ran: Duration,
    pub waited: Duration,
}

impl Scheduled {
    /// Reads a thread's `schedstat`. `None`: the kernel does not count.
    pub(crate) fn read(schedstat: &File) -> Option<Scheduled> {
        let mut text = [0; 96];
        let length = schedstat.read_at(&mut text, 0).ok()?;
        let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok())?;
        let mut numbers = text.split_ascii_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
        let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // A kernel that does not count reports zero.
        (!ran.is_zero()).then_some(Scheduled { ran, waited })
    }

    /// The longest that a task can have computed which was at work for `took`, and began after an `earlier` look.
    /// Where the hypervisor reports steal time, it counts neither as running nor as waiting.
    pub(crate) fn computed(self, earlier: Scheduled, took: Duration) -> Duration {
        let ran = self.ran.saturating_sub(earlier.ran);
        self.not_waited(earlier, took).min(ran)
    }

    /// `took` without the time in which the thread could have run but had no processor.
    pub(crate) fn not_waited(self, earlier: Scheduled, took: Duration) -> Duration {
        took.saturating_sub(self.waited.saturating_sub(earlier.waited))
    }
}

/// What a thread does at this moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// It has a processor, or waits for one.
    Runnable,
    /// It waits for something else.
    Blocked,
    /// By a signal or a debugger, or it has ended.
    Stopped,
}

impl State {
    /// Parses a line of /proc/PID/task/TID/stat: the field after the name, which is in brackets and may contain
    /// brackets.
    pub(crate) fn parse(stat: &str) -> Option<State> {
        match stat.rsplit_once(") ")?.1.chars().next()? {
            'R' => Some(State::Runnable),
            'S' | 'D' | 'I' => Some(State::Blocked),
            _ => Some(State::Stopped),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_a_processor_is_not_the_tasks() {
        let ms = Duration::from_millis;
        let at = |ran, waited| Scheduled { ran: ms(ran), waited: ms(waited) };
        for (earlier, now, took, computed) in [
            // It computed.
            (at(100, 50), at(130, 50), 30, 30),
            // Other threads had the processor, or other guests, who show in neither number.
            (at(100, 50), at(101, 80), 30, 0),
            (at(100, 50), at(101, 50), 30, 1),
            // Some of both; and what ran before in the same interval is not counted.
            (at(100, 50), at(125, 60), 30, 20),
            (at(100, 50), at(145, 50), 30, 30),
        ] {
            assert_eq!(now.computed(earlier, ms(took)), ms(computed), "{earlier:?} {now:?}");
        }
    }

    #[test]
    fn states_stand_behind_the_name() {
        for (stat, state) in [
            ("12 (worker-0) R 1 2", Some(State::Runnable)),
            ("12 (a) R (b) S 1 2", Some(State::Blocked)),
            ("12 (worker-0) D 1 2", Some(State::Blocked)),
            ("12 (worker-0) t 1 2", Some(State::Stopped)),
            ("12 (worker-0", None),
        ] {
            assert_eq!(State::parse(stat), state, "{stat}");
        }
    }
}
