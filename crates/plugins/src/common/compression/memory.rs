//! The memory of compressors under way, over all workers. One holds up to some MB for as long as its client takes the answer, so
//! clients that take nothing would fill the machine. Beyond a part of the memory for bodies, answers go out
//! uncompressed.

use std::sync::atomic::{
    AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed},
};

use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// One part in so many of `apisix.body_memory.total`.
const PART: usize = 2;

static HELD: AtomicUsize = AtomicUsize::new(0);
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// What the metrics page shows.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes that compressors hold.
    pub held: usize,
    /// Bytes that they may hold.
    pub limit: usize,
    /// Answers that went out uncompressed.
    pub left_out: u64,
}

/// Of all workers.
pub fn usage() -> Usage {
    Usage { held: HELD.load(Relaxed), limit: limit(), left_out: LEFT_OUT.load(Relaxed) }
}

fn limit() -> usize {
    tidegate_plugin_api::memory::limit() / PART
}

/// The memory of one compressor. Dropping it gives it back.
pub struct Lease(usize);

impl Lease {
    /// `None`, with a line in the log: the answer goes out uncompressed. One compressor is always allowed.
    pub fn new(bytes: usize) -> Option<Lease> {
        let limit = limit();
        let fits = |held: usize| {
            let sum = held.saturating_add(bytes);
            (held == 0 || sum <= limit).then_some(sum)
        };
        if HELD.fetch_update(Acquire, Relaxed, fits).is_err() {
            warn_of_memory(limit);
            return None;
        }
        Some(Lease(bytes))
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        HELD.fetch_sub(self.0, Relaxed);
    }
}

#[cold]
fn warn_of_memory(limit: usize) {
    LEFT_OUT.fetch_add(1, Relaxed);
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Warn,
            format_args!(
                "a response is not compressed: compressors use all of the {limit} bytes that are their share \
                 of apisix.body_memory.total; {others} more since the previous line"
            ),
        );
    }
}
