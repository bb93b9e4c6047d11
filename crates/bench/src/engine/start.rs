//! When all threads have to begin.

use std::{
    sync::{Barrier, OnceLock},
    time::Duration,
};

use super::clock::Clock;

/// Where the threads of a run meet when they are warm, and again when it is known when they start.
#[derive(Debug)]
pub(super) struct Start {
    pub(crate) warm: Barrier,
    pub ready: Barrier,
    pub clock: OnceLock<Clock>,
}

impl Start {
    /// For so many threads and the one that looks after them.
    pub(super) fn of(threads: usize) -> Start {
        Start { warm: Barrier::new(threads + 1), ready: Barrier::new(threads + 1), clock: OnceLock::new() }
    }

    /// For the one that looks after the threads: `between` runs when all are warm and none has begun.
    pub(super) fn lead(&self, between: impl FnOnce()) {
        self.warm.wait();
        between();
        let _ = self.clock.set(common_start());
        self.ready.wait();
    }
}

/// On a busy machine a thread takes some time to wake up.
const UNTIL_START: Duration = Duration::from_millis(20);

/// A clock that all threads share and whose zero is when they all run.
pub(crate) fn common_start() -> Clock {
    Clock::starting_at(std::time::Instant::now() + UNTIL_START)
}
