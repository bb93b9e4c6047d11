//! How many keys each plugin keeps, and how many it had to forget although they still counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

pub(super) struct Kept {
    plugin: &'static str,
    keys: AtomicUsize,
    forgotten: AtomicU64,
    lines: Limiter,
}

/// What the metrics page shows.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Name of the plugin.
    pub plugin: &'static str,
    /// Keys that are kept.
    pub keys: usize,
    /// Keys evicted since the start.
    pub forgotten: u64,
}

static ALL: Mutex<Vec<&'static Kept>> = Mutex::new(Vec::new());

/// The counts of a plugin: made once, as static as the plugins are.
pub(super) fn of(plugin: &'static str) -> &'static Kept {
    let mut all = ALL.lock();
    if let Some(known) = all.iter().find(|kept| kept.plugin == plugin) {
        return known;
    }
    let new: &'static Kept = Box::leak(Box::new(Kept {
        plugin,
        keys: AtomicUsize::new(0),
        forgotten: AtomicU64::new(0),
        lines: Limiter::new(1, 10_000),
    }));
    all.push(new);
    new
}

/// Of each plugin that counts in memory.
pub fn usage() -> Vec<Usage> {
    let read = |kept: &&'static Kept| Usage {
        plugin: kept.plugin,
        keys: kept.keys.load(Relaxed),
        forgotten: kept.forgotten.load(Relaxed),
    };
    ALL.lock().iter().map(read).collect()
}

impl Kept {
    pub(super) fn add(&self) {
        self.keys.fetch_add(1, Relaxed);
    }

    pub(super) fn remove(&self, count: usize) {
        self.keys.fetch_sub(count, Relaxed);
    }

    /// Logged: forgotten keys start over, and limits let more through than configured.
    pub(super) fn forget(&self, count: usize) {
        self.forgotten.fetch_add(count as u64, Relaxed);
        if self.lines.pass().is_some() {
            error_log::log(
                Level::Warn,
                format_args!(
                    "{}: too many keys, {count} of them were evicted and start over; {} since startup",
                    self.plugin,
                    self.forgotten.load(Relaxed)
                ),
            );
        }
    }
}
