//! Memory of instances, counted before it is had: each has a limit, and all together.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use wasmtime::{ResourceLimiter, Result};

/// Functions that one table refers to.
const MAX_ELEMENTS: usize = 100_000;

static HELD: AtomicUsize = AtomicUsize::new(0);

/// Bytes that instances hold, over all threads.
pub(super) fn held() -> usize {
    HELD.load(Relaxed)
}

/// What one instance holds.
#[derive(Debug)]
pub(super) struct Room {
    held: usize,
    limit: usize,
    total: usize,
    /// Something was refused: a module that goes on without it ends in a trap of its own.
    pub refused: Option<String>,
}

impl Room {
    /// Bytes of the instance, and of all.
    pub(super) fn new(limit: usize, total: usize) -> Room {
        Room { held: 0, limit, total, refused: None }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        HELD.fetch_sub(self.held, Relaxed);
    }
}

impl ResourceLimiter for Room {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        if desired > self.limit {
            self.refused =
                Some(format!("memory of an instance exceeds wasm.instance_memory, {} bytes", self.limit));
            return Ok(false);
        }
        let more = desired.saturating_sub(current);
        let taken = HELD
            .fetch_update(Relaxed, Relaxed, |held| held.checked_add(more).filter(|sum| *sum <= self.total));
        if taken.is_err() {
            self.refused = Some(format!("memory of all instances exceeds wasm.memory, {} bytes", self.total));
            return Ok(false);
        }
        self.held += more;
        Ok(true)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> Result<bool> {
        if desired > MAX_ELEMENTS {
            self.refused = Some(format!("a table has more than {MAX_ELEMENTS} elements"));
        }
        Ok(desired <= MAX_ELEMENTS)
    }

    fn instances(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        16
    }

    fn memories(&self) -> usize {
        1
    }
}
