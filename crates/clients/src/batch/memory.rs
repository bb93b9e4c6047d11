//! The memory that entries take until they are sent, over all loggers: `apisix.log_memory`. One logger gets half of it, so
//! that a receiver that hangs leaves room for the others.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static HELD: AtomicUsize = AtomicUsize::new(0);

/// One logger gets this part of the whole.
const PART: usize = 2;

/// Before it is set, as in tests of parts, there is no limit.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
}

/// The memory that one logger holds.
#[derive(Debug, Default)]
pub struct Account(AtomicUsize);

impl Account {
    /// An account without bytes.
    pub const fn new() -> Account {
        Account(AtomicUsize::new(0))
    }

    /// Bytes that are taken now.
    pub fn held(&self) -> usize {
        self.0.load(Relaxed)
    }

    /// Returns `false` and counts nothing when it does not fit.
    pub fn take(&self, bytes: usize) -> bool {
        let limit = LIMIT.load(Relaxed);
        if !add(&self.0, bytes, limit / PART) {
            return false;
        }
        let fits = add(&HELD, bytes, limit);
        if !fits {
            self.0.fetch_sub(bytes, Relaxed);
        }
        fits
    }

    /// Returns bytes that were taken before.
    pub fn give_back(&self, bytes: usize) {
        self.0.fetch_sub(bytes, Relaxed);
        HELD.fetch_sub(bytes, Relaxed);
    }
}

fn add(sum: &AtomicUsize, more: usize, limit: usize) -> bool {
    let fits = |sum: usize| sum.checked_add(more).filter(|sum| *sum <= limit);
    sum.fetch_update(Relaxed, Relaxed, fits).is_ok()
}
