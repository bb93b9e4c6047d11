//! What the searches of one request may take together: many patterns that each keep their limit could hold a worker.

use std::{cell::Cell, time::Duration};

use rustix::time::{ClockId, clock_gettime};

use crate::GaveUp;

/// Processor time of all searches of one request. The one that exceeds it goes on to its own limit.
pub const MAX_TIME: Duration = Duration::from_millis(16);

/// Shorter texts are searched in linear time without a look at the clock.
const LONG: usize = 4096;
/// What such a search counts for, with what it does before the first byte.
const NANOSECONDS_OF_A_BYTE: u32 = 2;
const NANOSECONDS_OF_A_SEARCH: u32 = 50;

/// How long the searches of a request have taken so far.
#[derive(Debug, Default)]
pub struct SearchTime {
    nanoseconds: Cell<u32>,
}

impl SearchTime {
    /// Whether no further search is begun.
    pub fn is_spent(&self) -> bool {
        Duration::from_nanos(self.nanoseconds.get().into()) > MAX_TIME
    }

    /// A search that backtracks.
    pub fn backtracking<R>(&self, search: impl FnOnce() -> Result<R, GaveUp>) -> Result<R, GaveUp> {
        self.begin()?;
        self.timed(search)
    }

    /// A search in linear time through a text of this length.
    pub fn linear<R>(&self, length: usize, search: impl FnOnce() -> R) -> Result<R, GaveUp> {
        self.begin()?;
        if length >= LONG {
            return Ok(self.timed(search));
        }
        let bytes = u32::try_from(length).unwrap_or(u32::MAX);
        self.charge(bytes.saturating_mul(NANOSECONDS_OF_A_BYTE).saturating_add(NANOSECONDS_OF_A_SEARCH));
        Ok(search())
    }

    fn begin(&self) -> Result<(), GaveUp> {
        if self.is_spent() { Err(GaveUp) } else { Ok(()) }
    }

    fn timed<R>(&self, search: impl FnOnce() -> R) -> R {
        let before = processor_time();
        let found = search();
        let took = processor_time().saturating_sub(before).as_nanos();
        self.charge(u32::try_from(took).unwrap_or(u32::MAX));
        found
    }

    fn charge(&self, nanoseconds: u32) {
        self.nanoseconds.set(self.nanoseconds.get().saturating_add(nanoseconds));
    }
}

/// Of this thread: time that others have the processor does not count against a pattern.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn searches_of_a_request_end_together() {
        let time = SearchTime::default();
        let pattern = crate::Pattern::new("(?:x|(?!y).)*z", false).expect("a pattern");
        let text = [b'a'; 2000];
        let mut begun = 0;
        while time.backtracking(|| pattern.is_match(&text).or(Ok(false))).is_ok() {
            begun += 1;
            assert!(begun < 100_000, "the searches never end");
        }
        assert!(time.is_spent() && begun > 0);
        assert_eq!(time.linear(1, || true), Err(GaveUp));
        assert_eq!(SearchTime::default().linear(1, || true), Ok(true), "others have their own time");
    }

    #[test]
    fn ordinary_searches_are_many() {
        let time = SearchTime::default();
        assert!((0..50_000).all(|_| time.linear(100, || ()).is_ok()));
        assert!((0..MAX_TIME.as_millis()).any(|_| time.linear(1_000_000, || busy(2)).is_err()));
    }

    fn busy(milliseconds: u64) {
        let begun = processor_time();
        while processor_time() < begun + Duration::from_millis(milliseconds) {}
    }
}
