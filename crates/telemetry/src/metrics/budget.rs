//! How many label sets a group may have, over all workers, how much memory they take, and how much of the page. Only the
//! first use of a label set comes here, and while there is no room any use of one that its worker does not know.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError, TryLockError};

/// The memory that one label set may take on average, with the text of its series.
pub(super) const BYTES_PER_SERIES: usize = 6 << 10;

/// The bytes of the page that one label set may take on average: a histogram repeats its labels in each line.
pub(super) const PAGE_BYTES_PER_SERIES: usize = 8 << 10;

/// All label sets of a group together may take at least this much of the page, however few are permitted.
const LEAST_PAGE_BYTES: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Budget {
    limit: usize,
    hasher: RandomState,
    /// There was no room the last time.
    is_full: AtomicBool,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Workers that have each label set.
    sets: HashMap<u64, u32>,
    bytes: usize,
    /// Blocks that feed each series, by the hash of its name and labels.
    series: HashMap<u64, u32>,
    page_bytes: usize,
}

/// The memory and room on the page that a block needs.
#[derive(Debug)]
pub(super) struct Want {
    /// The bytes of the block itself.
    pub bytes: usize,
    /// The additional bytes of the first block of a label set.
    pub(crate) of_set: usize,
    /// The series that it feeds, with the bytes of each on the page: counted once, however many blocks feed
    /// it.
    pub series: Vec<(u64, usize)>,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Budget {
        Budget { limit, hasher: RandomState::new(), is_full: AtomicBool::new(false), taken: Mutex::default() }
    }

    /// The seeded hash that identifies a series: clients choose labels.
    pub(crate) fn series_key(&self, labels: impl std::hash::Hash) -> u64 {
        self.hasher.hash_one(labels)
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Whether there may be room for a label set. Never waits for a lock while the budget is full.
    pub(crate) fn may_have_room(&self, key: u64) -> bool {
        if !self.is_full.load(Relaxed) {
            return true;
        }
        match self.taken.try_lock() {
            Ok(taken) => taken.sets.contains_key(&key),
            Err(TryLockError::Poisoned(taken)) => taken.into_inner().sets.contains_key(&key),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    pub(super) fn take(&self, key: u64, want: &Want) -> bool {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let known = taken.sets.contains_key(&key);
        let more = if known { want.bytes } else { want.bytes.saturating_add(want.of_set) };
        let bytes = taken.bytes.saturating_add(more);
        let new = want.series.iter().filter(|(series, _)| !taken.series.contains_key(series));
        let page_bytes = new.fold(taken.page_bytes, |sum, (_, bytes)| sum.saturating_add(*bytes));
        if bytes > self.limit.saturating_mul(BYTES_PER_SERIES)
            || page_bytes > self.limit.saturating_mul(PAGE_BYTES_PER_SERIES).max(LEAST_PAGE_BYTES)
            || (!known && taken.sets.len() >= self.limit)
        {
            self.is_full.store(true, Relaxed);
            return false;
        }
        taken.bytes = bytes;
        taken.page_bytes = page_bytes;
        for (series, _) in &want.series {
            *taken.series.entry(*series).or_default() += 1;
        }
        *taken.sets.entry(key).or_default() += 1;
        true
    }

    /// As it was taken.
    pub(super) fn give_back(&self, key: u64, want: &Want) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(workers) = taken.sets.get_mut(&key) else { return };
        *workers -= 1;
        let mut less = want.bytes;
        if *workers == 0 {
            taken.sets.remove(&key);
            less += want.of_set;
        }
        taken.bytes = taken.bytes.saturating_sub(less);
        for (series, bytes) in &want.series {
            let Some(feeders) = taken.series.get_mut(series) else { continue };
            *feeders -= 1;
            if *feeders == 0 {
                taken.series.remove(series);
                taken.page_bytes = taken.page_bytes.saturating_sub(*bytes);
            }
        }
        self.is_full.store(false, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_count_once_and_bytes_always() {
        let want = |bytes, of_set| Want { bytes, of_set, series: Vec::new() };
        let (usual, large) = (want(100, 1_000), want(2 * BYTES_PER_SERIES, 0));
        let budget = Budget::new(2);
        assert!(budget.take(1, &usual) && budget.take(1, &usual) && budget.take(2, &usual));
        assert!(budget.may_have_room(3), "nobody has tried");
        assert!(!budget.take(3, &usual), "two sets");
        assert!(!budget.may_have_room(3) && budget.may_have_room(1));
        assert!(!budget.take(1, &large), "bytes");
        budget.give_back(1, &usual);
        assert!(!budget.take(3, &usual), "another worker has it still");
        budget.give_back(1, &usual);
        assert!(budget.may_have_room(3) && budget.take(3, &usual));
        budget.give_back(2, &usual);
        budget.give_back(3, &usual);
        let taken = budget.taken.lock().expect("no panic");
        assert_eq!((taken.sets.len(), taken.bytes), (0, 0));
    }

    #[test]
    fn series_take_their_part_of_the_page_once() {
        const MUCH: usize = LEAST_PAGE_BYTES / 3 * 2;
        let want = |series: &[(u64, usize)]| Want { bytes: 1, of_set: 0, series: series.to_vec() };
        let (first, second) = (want(&[(1, MUCH), (2, 10)]), want(&[(2, 10), (3, 20)]));
        let budget = Budget::new(2);
        assert!(budget.take(1, &first) && budget.take(1, &first) && budget.take(2, &second));
        assert_eq!(budget.taken.lock().expect("no panic").page_bytes, MUCH + 30);
        budget.give_back(2, &second);
        let large = want(&[(1, MUCH), (4, MUCH / 2)]);
        assert!(!budget.take(2, &large), "the page");
        budget.give_back(1, &first);
        budget.give_back(1, &first);
        assert!(budget.take(2, &large));
        budget.give_back(2, &large);
        let taken = budget.taken.lock().expect("no panic");
        assert_eq!((taken.series.len(), taken.page_bytes), (0, 0));
    }
}
