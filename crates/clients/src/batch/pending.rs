//! How many entries of each logger wait, and how many were dropped.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::Instant,
};

use parking_lot::Mutex;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use super::memory::Account;

/// The counts of one plugin, for all its configurations together.
pub struct Pending {
    /// The plugin whose entries these are.
    pub plugin: &'static str,
    waiting: AtomicUsize,
    memory: Account,
    /// Dropped because too many waited.
    discarded: AtomicU64,
    /// Dropped because those that waited took too much memory.
    oversize: AtomicU64,
    /// Dropped because the receiver did not take them.
    lost: AtomicU64,
    /// Left out because they were about deliveries of log entries.
    own: AtomicU64,
    last_report: Mutex<Option<(Instant, u64)>>,
}

static ALL: Mutex<Vec<&'static Pending>> = Mutex::new(Vec::new());

/// The counts of a plugin; made once, and as static as the plugins are.
pub(super) fn of(plugin: &'static str) -> &'static Pending {
    let mut all = ALL.lock();
    if let Some(known) = all.iter().find(|pending| pending.plugin == plugin) {
        return known;
    }
    let new: &'static Pending = Box::leak(Box::new(Pending {
        plugin,
        waiting: AtomicUsize::new(0),
        memory: Account::new(),
        discarded: AtomicU64::new(0),
        oversize: AtomicU64::new(0),
        lost: AtomicU64::new(0),
        own: AtomicU64::new(0),
        last_report: Mutex::new(None),
    }));
    all.push(new);
    new
}

/// A plugin's numbers for the metrics page.
pub struct Counts {
    /// Name of the plugin.
    pub plugin: &'static str,
    /// Entries that are not sent yet.
    pub waiting: usize,
    /// What they take in memory, with what is made of them.
    pub waiting_bytes: usize,
    /// By reason.
    pub dropped: [(&'static str, u64); 4],
}

/// Of each configuration that has or had entries.
pub fn counts() -> Vec<Counts> {
    let read = |one: &&'static Pending| Counts {
        plugin: one.plugin,
        waiting: one.waiting.load(Relaxed),
        waiting_bytes: one.memory.held(),
        dropped: [
            ("backlog", one.discarded.load(Relaxed)),
            ("memory", one.oversize.load(Relaxed)),
            ("failed", one.lost.load(Relaxed)),
            ("loop", one.own.load(Relaxed)),
        ],
    };
    ALL.lock().iter().map(read).collect()
}

impl Pending {
    /// Counts an entry if there is room, else counts it as dropped.
    pub fn add(&self, limit: usize, bytes: usize) -> bool {
        let before = self.waiting.fetch_add(1, Relaxed);
        let dropped = match (before < limit, self.memory.take(bytes)) {
            (true, true) => return true,
            (true, false) => &self.oversize,
            (false, taken) => {
                if taken {
                    self.memory.give_back(bytes);
                }
                &self.discarded
            }
        };
        self.waiting.fetch_sub(1, Relaxed);
        dropped.fetch_add(1, Relaxed);
        self.report(before, limit, before < limit);
        false
    }

    /// Replaces an estimate by the real size. `false`: there is no room for the difference, and the entry counts as
    /// dropped.
    pub(crate) fn weighs(&self, expected: usize, bytes: usize) -> bool {
        if bytes <= expected {
            self.memory.give_back(expected - bytes);
            return true;
        }
        let fits = self.memory.take(bytes - expected);
        self.oversize.fetch_add(u64::from(!fits), Relaxed);
        fits
    }

    #[cold]
    pub(crate) fn count_own_delivery(&self) {
        self.own.fetch_add(1, Relaxed);
        static LINES: Limiter = Limiter::new(1, 60_000);
        if LINES.pass().is_some() {
            error_log::log(
                Level::Warn,
                format_args!(
                    "{}: log entries or spans are sent through this gateway itself; these requests are not \
                     logged, to avoid a loop. Log them at their destination, or with file-logger",
                    self.plugin
                ),
            );
        }
    }

    pub(crate) fn done(&self, count: usize, bytes: usize) {
        self.waiting.fetch_sub(count, Relaxed);
        self.memory.give_back(bytes);
    }

    pub(crate) fn lost(&self, count: usize) {
        self.lost.fetch_add(count as u64, Relaxed);
    }

    /// A line per dropped entry would be another flood.
    fn report(&self, waiting: usize, limit: usize, by_memory: bool) {
        let Some(mut last) = self.last_report.try_lock() else { return };
        let now = Instant::now();
        if last.is_some_and(|(at, _)| now.duration_since(at).as_secs() < 1) {
            return;
        }
        let total = self.discarded.load(Relaxed) + self.oversize.load(Relaxed);
        let told = last.map_or(0, |(_, told)| told);
        *last = Some((now, total));
        if by_memory {
            return error_log::log(
                Level::Error,
                format_args!(
                    "log entries take too much memory (apisix.log_memory). discarding entry. plugin: {}, \
                     pending entries: {waiting}, bytes: {}, discarded_entries: {}",
                    self.plugin,
                    self.memory.held(),
                    total - told
                ),
            );
        }
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
