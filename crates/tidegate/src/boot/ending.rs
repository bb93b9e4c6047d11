//! Whether this process ends, after `tidegate quit` or `stop`: it accepts no connections, and no other one does in its place.

use std::sync::atomic::{AtomicBool, Ordering};

static BEGUN: AtomicBool = AtomicBool::new(false);

/// What is said to those who ask whether the gateway serves.
pub(super) const REASON: &str = "the gateway is ending and accepts no connections";

pub(super) fn begin() {
    BEGUN.store(true, Ordering::Relaxed);
}

pub(super) fn has_begun() -> bool {
    BEGUN.load(Ordering::Relaxed)
}
