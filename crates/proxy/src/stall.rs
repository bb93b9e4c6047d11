//! Stall watch: how long a worker's loop was held up, and by what.
//!
//! A worker does one thing after the other: what takes a millisecond delays everybody else by it. Tasks are watched
//! with one look at the clock per poll; a poll begins where the one before it ended, or where the loop woke up. What
//! took longer than [`LIMIT`] is counted by length, and named at level debug with the plugins that ran meanwhile.
//!
//! A warning is for what an operator can act on: a task that itself computed for [`WARNED`]. The thread's own account of
//! time on a processor tells that from a machine that had none to give, be it for other threads or other guests.
//!
//! A poll that does not end is told of by nobody here: see [`crate::watchdog`].

use std::{
    cell::Cell,
    fs::File,
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tidegate_telemetry::error_log;

use crate::{progress::Progress, schedule::Scheduled, stats, worker::Worker};

/// What is shorter is not counted.
pub const LIMIT: Duration = Duration::from_millis(1);
/// A task that computes for longer is warned of.
const WARNED: Duration = Duration::from_millis(20);
/// Upper bounds in microseconds of what is counted; longer ones come last.
pub const BOUNDS_US: [u64; 9] = [2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];
/// One line a second and worker; the others are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
/// Polls between two looks at the account of the thread's time, besides those of the worker's tick. Each took less than
/// [`LIMIT`], most far less.
const LOOK_POLLS: u32 = 256;

thread_local! {
    /// When the poll that is going on began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The loop has slept and wakes up. For the runtime's hook.
pub fn awake() {
    BEGUN.set(Some(Instant::now()));
}

/// A task whose polls are looked at.
pub fn watched<F: Future<Output = ()>>(
    worker: &'static Worker,
    what: &'static str,
    task: F,
) -> impl Future<Output = ()> {
    Watched { worker, what, task }
}

pin_project_lite::pin_project! {
    struct Watched<F> {
        worker: &'static Worker,
        what: &'static str,
        #[pin]
        task: F,
    }
}

impl<F: Future<Output = ()>> Future for Watched<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.project();
        this.worker.stalls.progress.begin_poll();
        let result = this.task.poll(context);
        let now = Instant::now();
        let took =
            BEGUN.replace(Some(now)).map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        if took >= LIMIT {
            this.worker.stalls.report(this.worker, this.what, now, took);
        }
        this.worker.stalls.count_poll();
        result
    }
}

/// What one worker remembers of its stalls.
#[derive(Debug)]
pub struct Stalls {
    /// `/proc/thread-self/schedstat`: time on a processor, time waiting for one.
    schedule: Option<File>,
    looked: Cell<Scheduled>,
    pub progress: Progress,
    logged: Cell<Option<Instant>>,
    unlogged: Cell<u64>,
}

impl Stalls {
    /// On the worker's own thread.
    pub fn of_this_thread() -> Stalls {
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
    fn count_poll(&self) {
        if self.progress.end_poll().is_multiple_of(LOOK_POLLS) {
            self.look();
        }
    }

    /// What a task has computed is told from the last look on: one that is old counts what others did as well.
    #[cold]
    pub fn look(&self) {
        if let Some(scheduled) = self.schedule.as_ref().and_then(Scheduled::read) {
            self.looked.set(scheduled);
        }
    }

    /// The part of `took`, which ends now, in which this thread computed, as far as the kernel tells.
    #[cold]
    pub fn computed(&self, took: Duration) -> Duration {
        match self.schedule.as_ref().and_then(Scheduled::read) {
            Some(scheduled) => scheduled.computed(self.looked.get(), took),
            None => took,
        }
    }

    #[cold]
    fn report(&self, worker: &Worker, what: &str, now: Instant, took: Duration) {
        let computed = match self.schedule.as_ref().and_then(Scheduled::read) {
            Some(scheduled) => scheduled.computed(self.looked.replace(scheduled), took),
            None => took,
        };
        count(worker, took, took.saturating_sub(computed));
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
            count => format!("; {count} more stalls since the line before"),
        };
        error_log::log(
            if warned { error_log::Level::Warn } else { error_log::Level::Debug },
            format_args!(
                "worker {} was held up for {:.1} ms by {what}{}, {:.1} ms of them without a processor{others}",
                worker.index,
                took.as_secs_f64() * 1e3,
                ran(&self.progress),
                took.saturating_sub(computed).as_secs_f64() * 1e3,
            ),
        );
    }
}

fn count(worker: &Worker, took: Duration, unscheduled: Duration) {
    let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let bucket = BOUNDS_US.partition_point(|bound| *bound < micros(took));
    if let Some(count) = worker.stats.stalls.get(bucket) {
        stats::add(count, 1);
    }
    stats::add(&worker.stats.stalled_us, micros(took));
    stats::add(&worker.stats.unscheduled_us, micros(unscheduled));
}

/// ` (access key-auth, access limit-count)`, oldest first.
fn ran(progress: &Progress) -> String {
    let marks: Vec<String> = progress.ran().iter().map(|mark| format!("{} {}", mark.at, mark.name)).collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}
