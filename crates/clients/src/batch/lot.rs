//! The entries of one batch, on their way.

use std::{
    ops::Deref,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

/// A batch. It is seen as a slice: of the entries that are still to be sent.
pub struct Lot<T> {
    entries: Vec<T>,
    delivered: AtomicUsize,
}

impl<T> Lot<T> {
    pub fn new(entries: Vec<T>) -> Lot<T> {
        Lot { entries, delivered: AtomicUsize::new(0) }
    }

    /// For senders that send a batch in pieces: so many of its first entries are not sent again when a later piece fails.
    pub fn delivered(&self, count: usize) {
        self.delivered.fetch_add(count, Relaxed);
    }
}

impl<T> Deref for Lot<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.entries.get(self.delivered.load(Relaxed)..).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_delivered_is_not_seen_again() {
        let lot = Lot::new(vec![1, 2, 3]);
        lot.delivered(2);
        assert_eq!(*lot, [3]);
        lot.delivered(2);
        assert_eq!(lot.first(), None);
    }
}
