//! Nanoseconds since the start of a run: one number to subtract instead of two types.

use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose zero may lie a moment in the future, so that all threads begin together.
    pub fn starting_at(start: Instant) -> Clock {
        Clock { start }
    }

    /// Zero before the start.
    pub fn now(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_nanos() as u64
    }

    pub fn until_start(&self) -> Duration {
        self.start.saturating_duration_since(Instant::now())
    }
}
