//! How long a callback may compute.
//!
//! As for Lua, what counts is time on a processor, so that a busy machine does not end callbacks that do nothing wrong; a callback
//! that gets no processor ends after ten times the limit. Reading that time takes a system call, so a callback that is shorter than
//! a tick of the engine's clock never does.

use std::{
    fmt,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use super::engine::TICK;

/// The most that a callback may last when it gets no processor, in limits.
const MOST_TIMES: u32 = 10;

/// The time of the running callback.
#[derive(Debug)]
pub(super) struct Deadline {
    limit: Duration,
    /// What the thread's account and the clock said at the first look.
    first: Option<(Duration, Instant)>,
}

/// The time is up.
#[derive(Debug)]
pub(super) struct TimeIsUp(Duration);

impl fmt::Display for TimeIsUp {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "time limit of {} ms exceeded", self.0.as_millis())
    }
}

impl std::error::Error for TimeIsUp {}

fn on_processor() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), u32::try_from(now.tv_nsec).unwrap_or(0))
}

impl Deadline {
    pub(super) fn new(limit: Duration) -> Deadline {
        Deadline { limit, first: None }
    }

    /// A callback begins.
    pub(super) fn begin(&mut self, limit: Duration) {
        self.limit = limit;
        self.first = None;
    }

    /// A look at a tick of the clock.
    pub(super) fn check_time(&mut self) -> Result<(), TimeIsUp> {
        let Some((account, since)) = self.first else {
            self.first = Some((on_processor(), Instant::now()));
            return Ok(());
        };
        // Up to a tick has passed before the first look, the next comes a tick later, and the request is still to be refused.
        let spent = on_processor().saturating_sub(account) + 3 * TICK;
        match spent > self.limit || since.elapsed() > self.limit * MOST_TIMES {
            true => Err(TimeIsUp(self.limit)),
            false => Ok(()),
        }
    }
}
