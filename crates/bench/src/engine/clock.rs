//! Nanoseconds since the start of a run: one number to subtract instead of two types.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    start: Instant,
}

impl Clock {
    /// A clock whose zero may lie a moment in the future, so that all threads begin together.
    pub(crate) fn starting_at(start: Instant) -> Clock {
        Clock { start }
    }

    /// Zero before the start.
    pub(crate) fn now(&self) -> u64 {
        Instant::now().saturating_duration_since(self.start).as_nanos() as u64
    }

    pub(crate) fn until_start(&self) -> Duration {
        self.start.saturating_duration_since(Instant::now())
    }
}

pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

pub(crate) fn thread_cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}
