//! A worker's counters. Only their worker writes them, so a load and a store do; anybody reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerStats {
    pub accepted: AtomicU64,
    pub active: AtomicU64,
    pub idle: AtomicU64,
    pub requests: AtomicU64,
    pub refused: AtomicU64,
    pub panics: AtomicU64,
    /// Revision of the snapshot this worker uses.
    pub revision: AtomicU64,
    /// The longest the worker's loop was late, in microseconds, since somebody last looked.
    pub stall_us: AtomicU64,
    /// Polls that held the loop up, by length: see [`crate::stall`].
    pub stalls: [AtomicU64; crate::stall::BOUNDS_US.len() + 1],
    pub stalled_us: AtomicU64,
    /// The part of [`WorkerStats::stalled_us`] in which the thread had no processor.
    pub unscheduled_us: AtomicU64,
    pub dropped: crate::claims::Dropped,
}

pub fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

pub fn sub(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_sub(by), Relaxed);
}
