//! What one worker remembers of its stalls.

use std::{
    cell::Cell,
    fs::File,
    time::{Duration, Instant},
};

use tidegate_telemetry::error_log;

use super::super::stats::BOUNDS_US;
use crate::{
    progress::Progress,
    schedule::Scheduled,
    stats::{self, WorkerStats},
};

/// Shorter polls are not counted.
pub(crate) const LIMIT: Duration = Duration::from_millis(1);

/// A task that computes for longer causes a warning.
pub(super) const WARNED: Duration = Duration::from_millis(20);

/// One line a second and worker; the others are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// Polls between two looks at the account of the thread's time, besides those of the worker's tick. Each took less than
/// [`LIMIT`], most far less.
const LOOK_POLLS: u32 = 256;

/// What one worker remembers of its stalls.
#[derive(Debug)]
pub(crate) struct Stalls {
    /// `/proc/thread-self/schedstat`: time on a processor, time waiting for one.
    schedule: Option<File>,
    looked: Cell<Scheduled>,
    pub progress: Progress,
    logged: Cell<Option<Instant>>,
    unlogged: Cell<u64>,
}

impl Stalls {
    /// On the worker's own thread.
    pub(crate) fn of_this_thread() -> Stalls {
        let schedule = File::open("/proc/thread-self/schedstat").ok();
        Stalls {
            schedule,
            looked: Cell::default(),
            progress: Progress::default(),
            logged: Cell::new(None),
            unlogged: Cell::new(0),
        }
    }

    #[inline]
    pub(super) fn count_poll(&self) {
        if self.progress.end_poll().is_multiple_of(LOOK_POLLS) {
            self.read_schedule();
        }
    }

    /// The computing time of a task is measured from the last look: an old one includes the work of other
    /// tasks.
    #[cold]
    pub(crate) fn read_schedule(&self) {
        if let Some(scheduled) = self.schedule.as_ref().and_then(Scheduled::read) {
            self.looked.set(scheduled);
        }
    }

    /// The part of `took`, which ends now, in which this thread computed, as far as the kernel reports it.
    #[cold]
    pub(crate) fn computed(&self, took: Duration) -> Duration {
        match self.schedule.as_ref().and_then(Scheduled::read) {
            Some(scheduled) => scheduled.computed(self.looked.get(), took),
            None => took,
        }
    }

    #[cold]
    pub(super) fn report(
        &self,
        index: usize,
        counters: &WorkerStats,
        what: &str,
        now: Instant,
        took: Duration,
    ) {
        let computed = match self.schedule.as_ref().and_then(Scheduled::read) {
            Some(scheduled) => scheduled.computed(self.looked.replace(scheduled), took),
            None => took,
        };
        count(counters, took, took.saturating_sub(computed));
        let warned = computed >= WARNED;
        if !warned && !error_log::enabled(error_log::Level::Debug) {
            return;
        }
        if self.logged.get().is_some_and(|logged| now.saturating_duration_since(logged) < LOG_INTERVAL) {
            self.unlogged.set(self.unlogged.get() + 1);
            return;
        }
        self.logged.set(Some(now));
        let others = match self.unlogged.take() {
            0 => String::new(),
            count => format!("; {count} more stalls since the previous line"),
        };
        error_log::log(
            if warned { error_log::Level::Warn } else { error_log::Level::Debug },
            format_args!(
                "worker {index} was blocked for {:.1} ms by {what}{}, {:.1} ms of them without a CPU{others}",
                took.as_secs_f64() * 1e3,
                ran(&self.progress),
                took.saturating_sub(computed).as_secs_f64() * 1e3,
            ),
        );
    }
}

pub(super) fn count(counters: &WorkerStats, took: Duration, unscheduled: Duration) {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let bucket = BOUNDS_US.partition_point(|bound| *bound < micros(took));
    if let Some(count) = counters.stalls.get(bucket) {
        stats::add(count, 1);
    }
    stats::add(&counters.stalled_us, micros(took));
    stats::add(&counters.unscheduled_us, micros(unscheduled));
}

/// ` (access key-auth, access limit-count)`, oldest first.
pub(super) fn ran(progress: &Progress) -> String {
    let marks: Vec<String> = progress.ran().iter().map(|mark| format!("{} {}", mark.at, mark.name)).collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}
