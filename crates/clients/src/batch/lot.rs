//! The entries of one batch, on their way.

use std::{
    ops::Deref,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// A batch. It is seen as a slice: of the entries that are still to be sent.
pub struct Lot<T> {
    entries: Vec<T>,
    done: AtomicUsize,
    dropped: AtomicUsize,
}

impl<T> Lot<T> {
    /// Entries that are delivered together.
    pub fn new(entries: Vec<T>) -> Lot<T> {
        Lot { entries, done: AtomicUsize::new(0), dropped: AtomicUsize::new(0) }
    }

    /// For senders that send a batch in pieces: so many of its first entries are not sent again when a later piece fails.
    pub fn delivered(&self, count: usize) {
        self.done.fetch_add(count, Relaxed);
    }

    /// So many of the first entries can never be delivered: they count as lost, and are not sent again either.
    pub fn dropped(&self, count: usize) {
        self.dropped.fetch_add(count, Relaxed);
        self.done.fetch_add(count, Relaxed);
    }

    /// Of the whole batch, once nothing more is tried. `is_delivered`: the last try has succeeded, also for those that were not
    /// noted one by one.
    pub(super) fn lost(&self, is_delivered: bool) -> usize {
        self.dropped.load(Relaxed) + if is_delivered { 0 } else { self.len() }
    }
}

impl<T> Deref for Lot<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.entries.get(self.done.load(Relaxed)..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_delivered_is_not_seen_again() {
        let lot = Lot::new(vec![1, 2, 3]);
        lot.delivered(2);
        assert_eq!((&*lot, lot.lost(false), lot.lost(true)), ([3].as_slice(), 1, 0));
        lot.dropped(1);
        assert_eq!((lot.first(), lot.lost(false), lot.lost(true)), (None, 1, 1));
    }
}
