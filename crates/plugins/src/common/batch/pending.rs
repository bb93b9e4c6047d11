//! How many entries of each logger wait, and how many were dropped.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use parking_lot::Mutex;
use telemetry::error_log::{self, Level};

/// The counts of one plugin, for all its configurations together.
pub struct Pending {
    pub plugin: &'static str,
    waiting: AtomicUsize,
    /// Dropped because too many waited.
    discarded: AtomicU64,
    /// Dropped because the receiver did not take them.
    lost: AtomicU64,
    last_report: Mutex<Option<(Instant, u64)>>,
}

static ALL: Mutex<Vec<&'static Pending>> = Mutex::new(Vec::new());

/// The counts of a plugin; made once, and as static as the plugins are.
pub fn of(plugin: &'static str) -> &'static Pending {
    let mut all = ALL.lock();
    if let Some(known) = all.iter().find(|pending| pending.plugin == plugin) {
        return known;
    }
    let new: &'static Pending = Box::leak(Box::new(Pending {
        plugin,
        waiting: AtomicUsize::new(0),
        discarded: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        last_report: Mutex::new(None),
    }));
    all.push(new);
    new
}

/// Plugin, waiting, discarded, lost: for the metrics page.
pub fn counts() -> Vec<(&'static str, usize, u64, u64)> {
    let all = ALL.lock();
    all.iter()
        .map(|one| {
            (one.plugin, one.waiting.load(Relaxed), one.discarded.load(Relaxed), one.lost.load(Relaxed))
        })
        .collect()
}

impl Pending {
    /// Room for one more entry? Counts it, or counts it as dropped.
    pub fn add(&self, limit: usize) -> bool {
        let before = self.waiting.fetch_add(1, Relaxed);
        if before < limit {
            return true;
        }
        self.waiting.fetch_sub(1, Relaxed);
        self.discarded.fetch_add(1, Relaxed);
        self.report(before, limit);
        false
    }

    pub fn done(&self, count: usize) {
        self.waiting.fetch_sub(count, Relaxed);
    }

    pub fn lost(&self, count: usize) {
        self.lost.fetch_add(count as u64, Relaxed);
    }

    /// A line per dropped entry would be a flood of its own.
    fn report(&self, waiting: usize, limit: usize) {
        let Some(mut last) = self.last_report.try_lock() else { return };
        let now = Instant::now();
        if last.is_some_and(|(at, _)| now.duration_since(at).as_secs() < 1) {
            return;
        }
        let total = self.discarded.load(Relaxed);
        let told = last.map_or(0, |(_, told)| told);
        *last = Some((now, total));
        error_log::log(
            Level::Error,
            format_args!(
                "max pending entries limit exceeded. discarding entry. plugin: {}, pending entries: {waiting}, \
                 max_pending_entries: {limit}, discarded_entries: {}",
                self.plugin,
                total - told
            ),
        );
    }
}
