//! What the searches of one request may take together: many patterns that each keep their limit could hold a worker.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use rustix::time::{ClockId, clock_gettime};

use crate::outcome::GaveUp;

/// Processor time of all searches of one request, and of one search that is asked for alone.
pub const MAX_TIME: Duration = Duration::from_millis(16);

/// What the slowest engine takes for one byte in one state.
const NANOSECONDS_OF_WORK: u32 = 16;

/// States of a pattern times bytes of a text that one search may pass through: [`MAX_TIME`].
pub const MAX_WORK: usize = 1_000_000;
const _: () = assert!(MAX_WORK as u128 * NANOSECONDS_OF_WORK as u128 == MAX_TIME.as_nanos());

/// Until a request has asked for so much work no clock is read: its searches count for their bytes.
const LITTLE_WORK: usize = 256 << 10;
const NANOSECONDS_OF_A_BYTE: u32 = 2;
const NANOSECONDS_OF_A_SEARCH: u32 = 50;
const BYTES_READ_IN_A_NANOSECOND: u32 = 4;

/// While more than this is left the clock on the wall is good enough: the account of the thread takes a call of the system.
const NO_HURRY: Duration = Duration::from_millis(12);

/// How long the searches of a request, or of another piece of work, may still take.
#[derive(Debug)]
pub struct SearchTime {
    nanoseconds: Cell<u32>,
    /// What its searches in linear time would have done at worst.
    work: Cell<usize>,
}

impl Default for SearchTime {
    fn default() -> SearchTime {
        SearchTime::of(MAX_TIME)
    }
}

impl SearchTime {
    /// For one request, of which searches may take that long together.
    pub fn of(most: Duration) -> SearchTime {
        SearchTime { nanoseconds: Cell::new(nanoseconds(most)), work: Cell::new(0) }
    }

    /// A part of what is left, for searches elsewhere; it comes back with [`SearchTime::join`].
    pub fn split(&self, most: Duration) -> SearchTime {
        let part = self.nanoseconds.get().min(nanoseconds(most));
        self.charge(part);
        SearchTime { nanoseconds: Cell::new(part), work: self.work.clone() }
    }

    /// Takes back what is left of a part.
    pub fn join(&self, part: &SearchTime) {
        self.nanoseconds.set(self.nanoseconds.get().saturating_add(part.nanoseconds.take()));
        self.work.set(self.work.get().max(part.work.get()));
    }

    /// Whether no further search is begun.
    pub fn is_spent(&self) -> bool {
        self.nanoseconds.get() == 0
    }

    /// Whether so much of it is gone.
    pub fn has_taken(&self, time: Duration) -> bool {
        self.nanoseconds.get().saturating_add(nanoseconds(time)) <= nanoseconds(MAX_TIME)
    }

    /// Counts the bytes of a value that was looked up for a search.
    pub fn read(&self, length: usize) {
        self.charge(u32::try_from(length).unwrap_or(u32::MAX) / BYTES_READ_IN_A_NANOSECOND);
    }

    fn left(&self) -> Result<Duration, GaveUp> {
        if self.is_spent() { Err(GaveUp) } else { Ok(Duration::from_nanos(self.nanoseconds.get().into())) }
    }

    /// A search with a limit of time.
    pub fn backtracking<R>(&self, search: impl FnOnce(Duration) -> Result<R, GaveUp>) -> Result<R, GaveUp> {
        let left = self.left()?;
        let found = self.timed(left, search);
        // It might have come to its end had the others left it more.
        if found.is_err() && left < MAX_TIME / 2 {
            self.nanoseconds.set(0);
        }
        found
    }

    /// A search in a text of this length, with so much work at worst.
    pub(crate) fn linear<R>(
        &self,
        length: usize,
        work: usize,
        search: impl FnOnce(Duration) -> Result<R, GaveUp>,
    ) -> Result<R, GaveUp> {
        let left = self.left()?;
        self.work.set(self.work.get().saturating_add(work));
        if self.work.get() < LITTLE_WORK {
            return self.unclocked(length, search);
        }
        if left < NO_HURRY {
            return self.timed(left, search);
        }
        let begun = Instant::now();
        let found = search(left);
        // Whatever else had the processor: a search took no longer than its work.
        let most = u32::try_from(work).unwrap_or(u32::MAX).saturating_mul(NANOSECONDS_OF_WORK);
        self.charge(nanoseconds(begun.elapsed()).min(most));
        found
    }

    /// A search that counts for its bytes.
    pub(crate) fn unclocked<R>(
        &self,
        length: usize,
        search: impl FnOnce(Duration) -> Result<R, GaveUp>,
    ) -> Result<R, GaveUp> {
        let left = self.left()?;
        self.charge(bytes(length).saturating_add(NANOSECONDS_OF_A_SEARCH));
        search(left)
    }

    fn timed<R>(&self, left: Duration, search: impl FnOnce(Duration) -> R) -> R {
        let before = processor_time();
        let found = search(left);
        self.charge(nanoseconds(processor_time().saturating_sub(before)));
        found
    }

    fn charge(&self, nanoseconds: u32) {
        self.nanoseconds.set(self.nanoseconds.get().saturating_sub(nanoseconds));
    }
}

/// How much work the slowest engine does in this time.
pub(crate) fn work_within(time: Duration) -> usize {
    usize::try_from(time.as_nanos() / u128::from(NANOSECONDS_OF_WORK)).unwrap_or(usize::MAX)
}

/// Ends a search whose processor time is up.
pub(crate) struct Stopwatch {
    begun: Instant,
    account: Duration,
    most: Duration,
}

impl Stopwatch {
    pub(crate) fn new(most: Duration) -> Stopwatch {
        Stopwatch { begun: Instant::now(), account: processor_time(), most }
    }

    pub(crate) fn check(&self) -> Result<(), GaveUp> {
        let is_over = self.begun.elapsed() > self.most && self.taken() > self.most;
        if is_over { Err(GaveUp) } else { Ok(()) }
    }

    pub(crate) fn taken(&self) -> Duration {
        processor_time().saturating_sub(self.account)
    }
}

fn bytes(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX).saturating_mul(NANOSECONDS_OF_A_BYTE)
}

fn nanoseconds(time: Duration) -> u32 {
    u32::try_from(time.as_nanos()).unwrap_or(u32::MAX)
}

/// Of this thread: time that others have the processor does not count against a pattern.
pub(crate) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Expression;

    #[test]
    fn searches_of_a_request_end_together() {
        for pattern in ["(?:x|(?!y).)*z", "(x{1,50}){1,50}y", "[ab]*a[ab]{20}c"] {
            let time = SearchTime::default();
            let pattern = Expression::new(pattern, false).expect("a pattern");
            let mut begun = 0_u32;
            // No text twice: what was learnt of one is of no use for the next.
            let text = |round: u32| {
                let mut random = round.wrapping_mul(2_654_435_761) | 1;
                let mut byte = || {
                    random ^= random << 13;
                    random ^= random >> 17;
                    random ^= random << 5;
                    if random & 64 == 0 { b'a' } else { b'x' - (random % 2) as u8 * 22 }
                };
                (0..2000).map(|_| byte()).collect::<Vec<u8>>()
            };
            while pattern.is_match(&text(begun), Some(&time)).is_ok() {
                begun += 1;
                assert!(begun < 1_000_000, "{pattern:?}: the searches never end");
            }
            let short = Expression::new("a", false).expect("a pattern");
            if time.is_spent() {
                assert_eq!(short.is_match(b"a", Some(&time)), Err(GaveUp));
            }
            assert_eq!(short.is_match(b"a", Some(&SearchTime::default())), Ok(true), "others have their own");
        }
    }

    #[test]
    fn ordinary_searches_are_many() {
        let pattern = Expression::new("^/api/v[0-9]+/users/[0-9]+$", false).expect("a pattern");
        let time = SearchTime::default();
        for _ in 0..2_000 {
            assert_eq!(pattern.is_match(b"/api/v2/users/4711/orders", Some(&time)), Ok(false));
        }
    }

    #[test]
    fn parts_come_back() {
        let time = SearchTime::default();
        let part = time.split(Duration::from_millis(6));
        part.charge(2_000_000);
        let rest = time.split(MAX_TIME);
        assert!(time.is_spent());
        assert_eq!(rest.left(), Ok(Duration::from_millis(10)));
        time.join(&part);
        time.join(&rest);
        assert_eq!(time.left(), Ok(Duration::from_millis(14)));
        assert!(part.is_spent() && rest.is_spent());
    }

    #[test]
    fn a_search_ends_when_its_time_is_up() {
        let begun = processor_time();
        let watch = Stopwatch::new(Duration::from_millis(20));
        while watch.check().is_ok() {}
        let took = processor_time().saturating_sub(begun);
        assert!(took >= Duration::from_millis(20) && took < Duration::from_millis(60), "{took:?}");
    }
}
