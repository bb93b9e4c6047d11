//! Counters by key, shared by all workers: the quota is one, however many workers there are.

use std::sync::LazyLock;

use crate::common::shards::{Forgettable, Key, Shards};

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    /// When it ends, in seconds.
    ends: f64,
    taken: f64,
    /// Of the window before (sliding windows only).
    previous: f64,
}

/// The outcome of taking from a quota.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Taken {
    pub allowed: bool,
    pub remaining: f64,
    pub(crate) reset_seconds: f64,
}

impl Forgettable for Window {
    fn is_stale(&self, now: f64) -> bool {
        self.ends <= now
    }

    fn worth(&self) -> f64 {
        self.ends
    }
}

pub(crate) struct Counters(Shards<Window>);

impl Counters {
    /// Those of the process: configurations come and go, counts stay.
    pub(crate) fn global() -> &'static Counters {
        static COUNTERS: LazyLock<Counters> = LazyLock::new(|| Counters(Shards::new("limit-count")));
        &COUNTERS
    }

    /// Takes from the quota of `key`.
    pub(crate) fn take(&self, key: &[u8], quota: Quota, cost: f64, now: f64) -> Taken {
        self.0.edit(&Key::new(key), now, |window| quota.take_from(window, cost, now))
    }
}

/// What may be taken within a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quota {
    pub limit: f64,
    /// Seconds.
    pub window: f64,
    pub sliding: bool,
}

impl Quota {
    fn take_from(self, counter: &mut Window, cost: f64, now: f64) -> Taken {
        if self.sliding { self.sliding(counter, cost, now) } else { self.fixed(counter, cost, now) }
    }

    /// The window starts with the first request of a key.
    fn fixed(self, counter: &mut Window, cost: f64, now: f64) -> Taken {
        if counter.ends <= now {
            *counter = Window { ends: now + self.window, taken: 0.0, previous: 0.0 };
        }
        counter.taken += cost;
        let remaining = self.limit - counter.taken;
        let reset_seconds = if counter.taken == cost { self.window } else { counter.ends - now };
        Taken { allowed: remaining >= 0.0, remaining, reset_seconds }
    }

    /// Two aligned windows: the one before counts with the share of it that still lies within one window of now.
    fn sliding(self, counter: &mut Window, cost: f64, now: f64) -> Taken {
        let mut now = now;
        let mut ends = (now / self.window).floor() * self.window + self.window;
        if counter.ends == ends + self.window {
            // Another worker, whose poll began later, has opened the next window.
            (now, ends) = (ends, counter.ends);
        }
        if counter.ends != ends {
            let adjacent = counter.ends + self.window == ends;
            *counter = Window { ends, taken: 0.0, previous: if adjacent { counter.taken } else { 0.0 } };
        }
        let previous = counter.previous.min(self.limit);
        let allowed =
            counter.taken < self.limit && previous / self.window * (ends - now) + counter.taken < self.limit;
        if allowed {
            counter.taken += cost;
        }
        self.sliding_result(allowed, counter.taken, previous, ends - now)
    }

    /// What headers say about a sliding window, `left` seconds before its end.
    pub(crate) fn sliding_result(self, allowed: bool, taken: f64, previous: f64, left: f64) -> Taken {
        let up = |seconds: f64| (seconds * 100.0).ceil() / 100.0;
        let rate = previous / self.window;
        if allowed {
            let remaining = (self.limit - taken - rate * left).floor();
            return Taken { allowed, remaining, reset_seconds: up(left) };
        }
        let wait = if taken >= self.limit || rate == 0.0 {
            left
        } else {
            (left - (self.limit - taken) / rate).max(0.0)
        };
        Taken { allowed, remaining: 0.0, reset_seconds: up(wait) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIXED: Quota = Quota { limit: 2.0, window: 60.0, sliding: false };
    const SLIDING: Quota = Quota { limit: 4.0, window: 10.0, sliding: true };

    #[test]
    fn a_worker_that_is_late_does_not_open_the_window_before_again() {
        let counters = Counters(Shards::new("test"));
        let allowed = |now| counters.take(b"k", SLIDING, 1.0, now).allowed;
        assert!((0..4).all(|_| allowed(12.0)));
        assert!(!allowed(20.0), "all of the window before counts");
        assert!(!allowed(19.9) && !allowed(20.0));
    }

    #[test]
    fn a_fixed_window_starts_with_its_first_request() {
        let counters = Counters(Shards::new("test"));
        let take = |now| counters.take(b"k", FIXED, 1.0, now);
        assert_eq!(take(100.0), Taken { allowed: true, remaining: 1.0, reset_seconds: 60.0 });
        assert_eq!(take(110.0), Taken { allowed: true, remaining: 0.0, reset_seconds: 50.0 });
        assert_eq!(take(120.0), Taken { allowed: false, remaining: -1.0, reset_seconds: 40.0 });
        assert!(take(160.0).allowed);
    }

    #[test]
    fn a_sliding_window_remembers_the_one_before() {
        let counters = Counters(Shards::new("test"));
        let take = |now| counters.take(b"k", SLIDING, 1.0, now);
        for _ in 0..4 {
            assert!(take(109.0).allowed);
        }
        assert!(!take(109.5).allowed);
        // Half of the four still count: two are free.
        assert!(take(115.0).allowed);
        assert!(take(115.0).allowed);
        assert!(!take(115.0).allowed);
        assert!(take(135.0).allowed);
    }
}
