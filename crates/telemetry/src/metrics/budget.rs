//! How many label sets a group may have, over all workers, and how much memory they take. Only the first use of a label set
//! comes here, and while there is no room any use of one that its worker does not know.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, TryLockError};

/// What one label set may take on average, with the text of its series.
pub const BYTES_PER_SERIES: usize = 6 << 10;

#[derive(Debug)]
pub struct Budget {
    limit: usize,
    /// There was no room the last time.
    is_full: AtomicBool,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Workers that have each label set.
    sets: HashMap<u64, u32>,
    bytes: usize,
}

impl Budget {
    pub fn new(limit: usize) -> Budget {
        Budget { limit, is_full: AtomicBool::new(false), taken: Mutex::default() }
    }

    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Whether there may be room for a label set. Nobody waits for it while there is none.
    pub fn may_have_room(&self, key: u64) -> bool {
        if !self.is_full.load(Relaxed) {
            return true;
        }
        match self.taken.try_lock() {
            Ok(taken) => taken.sets.contains_key(&key),
            Err(TryLockError::Poisoned(taken)) => taken.into_inner().sets.contains_key(&key),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// For a block of these bytes; the first of its label set takes `of_set` more.
    pub fn take(&self, key: u64, bytes: usize, of_set: usize) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let known = taken.sets.contains_key(&key);
        let more = if known { bytes } else { bytes.saturating_add(of_set) };
        let sum = taken.bytes.saturating_add(more);
        if sum > self.limit.saturating_mul(BYTES_PER_SERIES) || (!known && taken.sets.len() >= self.limit) {
            self.is_full.store(true, Relaxed);
            return false;
        }
        taken.bytes = sum;
        *taken.sets.entry(key).or_default() += 1;
        true
    }

    /// As it was taken.
    pub fn give_back(&self, key: u64, bytes: usize, of_set: usize) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(workers) = taken.sets.get_mut(&key) else { return };
        *workers -= 1;
        let mut less = bytes;
        if *workers == 0 {
            taken.sets.remove(&key);
            less += of_set;
        }
        taken.bytes = taken.bytes.saturating_sub(less);
        self.is_full.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_count_once_and_bytes_always() {
        let budget = Budget::new(2);
        assert!(budget.take(1, 100, 1_000) && budget.take(1, 100, 1_000) && budget.take(2, 100, 1_000));
        assert!(budget.may_have_room(3), "nobody has tried");
        assert!(!budget.take(3, 100, 1_000), "two sets");
        assert!(!budget.may_have_room(3) && budget.may_have_room(1));
        assert!(!budget.take(1, 2 * BYTES_PER_SERIES, 0), "bytes");
        budget.give_back(1, 100, 1_000);
        assert!(!budget.take(3, 100, 1_000), "another worker has it still");
        budget.give_back(1, 100, 1_000);
        assert!(budget.may_have_room(3) && budget.take(3, 100, 1_000));
        budget.give_back(2, 100, 1_000);
        budget.give_back(3, 100, 1_000);
        let taken = budget.taken.lock().expect("no panic");
        assert_eq!((taken.sets.len(), taken.bytes), (0, 0));
    }
}
