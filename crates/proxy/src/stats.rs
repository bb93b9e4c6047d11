//! A worker's counters. Only their worker writes them, so a load and a store suffice; any thread reads.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Counters of one worker, which only it writes.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct WorkerStats {
    /// Connections accepted.
    pub accepted: AtomicU64,
    /// Connections open.
    pub active: AtomicU64,
    /// Connections between two requests.
    pub idle: AtomicU64,
    /// Requests begun.
    pub requests: AtomicU64,
    /// Connections closed because of limits.
    pub refused: AtomicU64,
    /// Requests that panicked.
    pub panics: AtomicU64,
    /// Revision of the snapshot this worker uses.
    pub revision: AtomicU64,
    /// The longest delay of the worker's loop, in microseconds, since it was last read.
    pub stall_us: AtomicU64,
    /// Polls that held the loop up, by length: see [`crate::stall`].
    pub stalls: [AtomicU64; BOUNDS_US.len() + 1],
    /// Time in which a task of over 1 ms ran.
    pub stalled_us: AtomicU64,
    /// The part of [`WorkerStats::stalled_us`] in which the thread had no processor.
    pub unscheduled_us: AtomicU64,
    /// Fields of clients that were not passed on.
    pub dropped: Dropped,
}

/// Without a locked instruction: the caller is the only writer.
pub fn add(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_add(by), Relaxed);
}

/// As [`add`].
pub fn sub(counter: &AtomicU64, by: u64) {
    counter.store(counter.load(Relaxed).wrapping_sub(by), Relaxed);
}

/// Fields of requests that were dropped, by reason. Only their worker writes them.
#[derive(Debug, Default)]
pub struct Dropped {
    /// `X-Consumer-*` and the like.
    pub identity: AtomicU64,
    /// `X-Forwarded-*` and the like of peers that are not believed, or without a valid value.
    pub forwarding: AtomicU64,
    /// Any claim spelled with another sign than `-`: `X_Consumer_Username`, `Content.Length`.
    pub underscored_claim: AtomicU64,
    /// Any name with `_`, where `underscores_in_headers` is off.
    pub underscore: AtomicU64,
    /// Any name with a sign other than `-` and `_`.
    pub invalid_name: AtomicU64,
    /// Other spellings of a name that a plugin has set.
    pub plugin: AtomicU64,
    /// Trailer fields.
    pub trailer: AtomicU64,
}

impl Dropped {
    /// Reasons and counts, for metrics.
    pub fn counts(&self) -> [(&'static str, u64); 7] {
        [
            ("identity", self.identity.load(Relaxed)),
            ("forwarding", self.forwarding.load(Relaxed)),
            ("underscored_claim", self.underscored_claim.load(Relaxed)),
            ("underscore", self.underscore.load(Relaxed)),
            ("invalid_name", self.invalid_name.load(Relaxed)),
            ("plugin", self.plugin.load(Relaxed)),
            ("trailer", self.trailer.load(Relaxed)),
        ]
    }
}

/// Upper bounds in microseconds of what is counted; longer ones come last.
pub const BOUNDS_US: [u64; 9] = [2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];
