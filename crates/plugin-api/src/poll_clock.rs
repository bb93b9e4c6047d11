//! One reading of the clock for what a worker does in one poll of a task.
//!
//! A reading takes 24 ns (`clock_gettime` of a virtual machine), of 15 us of a request. When a poll began is known anyhow:
//! it is where the one before it ended, or where the worker woke up. For spans that a poll may hold, such as the time of
//! a plugin's own work, ask the clock itself.

use std::{cell::Cell, time::Instant};

thread_local! {
    static BEGAN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The next poll of this worker begins; returns when the one before it began. For the worker's loop.
pub fn begin(at: Instant) -> Option<Instant> {
    BEGAN.replace(Some(at))
}

/// When the poll at hand began; on other threads than workers, now.
pub fn now() -> Instant {
    BEGAN.get().unwrap_or_else(Instant::now)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_poll_has_one_time() {
        let began = Instant::now();
        assert!(now() >= began, "no worker: the clock's own time");
        let poll = began + Duration::from_secs(5);
        assert_eq!(begin(poll), None);
        assert_eq!((now(), now()), (poll, poll));
        assert_eq!(begin(began), Some(poll));
        assert!(std::thread::spawn(now).join().is_ok_and(|other| other < poll));
    }
}
