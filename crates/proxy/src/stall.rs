//! Stall watch: how long a worker's loop was held up, and by what.
//!
//! A worker does one thing after the other: what takes a millisecond delays everybody else by it. Tasks are watched
//! with one look at the clock per poll; a poll begins where the one before it ended, or where the loop woke up. What
//! took longer than [`LIMIT`] is counted by length and named in the error log: the plugins that ran meanwhile, and
//! the part in which the thread was ready but got no processor, for which the machine is to blame and not the task.

use std::{
    cell::Cell,
    fs::File,
    future::Future,
    os::unix::fs::FileExt,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use telemetry::error_log;

use crate::{stats, worker::Worker};

/// What is shorter is nobody's concern.
pub const LIMIT: Duration = Duration::from_millis(1);
/// Upper bounds in microseconds of what is counted; longer ones come last.
pub const BOUNDS_US: [u64; 9] = [2_000, 5_000, 10_000, 20_000, 50_000, 100_000, 200_000, 500_000, 1_000_000];
/// One line a second and worker; the others are counted.
const LOG_INTERVAL: Duration = Duration::from_secs(1);
const MARKS: usize = 8;

type Mark = (&'static str, &'static str);

thread_local! {
    /// When the poll that is going on began.
    static BEGUN: Cell<Option<Instant>> = const { Cell::new(None) };
    /// What ran in it, the newest over the oldest.
    static RAN: [Cell<Mark>; MARKS] = const { [const { Cell::new(("", "")) }; MARKS] };
    static RAN_COUNT: Cell<usize> = const { Cell::new(0) };
}

/// The loop has slept and wakes up. For the runtime's hook.
pub fn awake() {
    BEGUN.set(Some(Instant::now()));
}

/// Something begins that may take time.
#[inline]
pub fn mark(phase: &'static str, name: &'static str) {
    let count = RAN_COUNT.get();
    RAN.with(|ran| {
        if let Some(slot) = ran.get(count % MARKS) {
            slot.set((phase, name));
        }
    });
    RAN_COUNT.set(count + 1);
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
        RAN_COUNT.set(0);
        let result = this.task.poll(context);
        let now = Instant::now();
        let took =
            BEGUN.replace(Some(now)).map_or(Duration::ZERO, |begun| now.saturating_duration_since(begun));
        if took >= LIMIT {
            this.worker.stalls.report(this.worker, this.what, now, took);
        }
        result
    }
}

/// What one worker remembers of its stalls.
#[derive(Debug)]
pub struct Stalls {
    /// `/proc/thread-self/schedstat`: time on a processor, time waiting for one.
    schedule: Option<File>,
    waited_ns: Cell<u64>,
    logged: Cell<Option<Instant>>,
    unlogged: Cell<u64>,
}

impl Stalls {
    /// On the worker's own thread.
    pub fn of_this_thread() -> Stalls {
        let schedule = File::open("/proc/thread-self/schedstat").ok();
        Stalls { schedule, waited_ns: Cell::new(0), logged: Cell::new(None), unlogged: Cell::new(0) }
    }

    /// Now and then: the time without a processor is told from here on.
    pub fn look(&self) {
        self.waited_ns.set(self.waited());
    }

    fn waited(&self) -> u64 {
        let mut text = [0; 96];
        let length = self.schedule.as_ref().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
        let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok()).unwrap_or_default();
        text.split_ascii_whitespace().nth(1).and_then(|ns| ns.parse().ok()).unwrap_or(0)
    }

    #[cold]
    fn report(&self, worker: &Worker, what: &str, now: Instant, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_US.partition_point(|bound| *bound < micros);
        if let Some(count) = worker.stats.stalls.get(bucket) {
            stats::add(count, 1);
        }
        stats::add(&worker.stats.stalled_us, micros);
        if self.logged.get().is_some_and(|logged| now.saturating_duration_since(logged) < LOG_INTERVAL) {
            self.unlogged.set(self.unlogged.get() + 1);
            return;
        }
        self.logged.set(Some(now));
        let waited = self.waited().saturating_sub(self.waited_ns.get());
        let waited = Duration::from_nanos(waited).min(took);
        let others = match self.unlogged.take() {
            0 => String::new(),
            count => format!("; {count} more stalls since the line before"),
        };
        error_log::log(
            error_log::Level::Warn,
            format_args!(
                "worker {} was held up for {:.1} ms by {what}{}, up to {:.1} ms of them without a processor{others}",
                worker.index,
                took.as_secs_f64() * 1e3,
                ran(),
                waited.as_secs_f64() * 1e3,
            ),
        );
    }
}

/// ` (access key-auth, access limit-count)`, oldest first.
fn ran() -> String {
    let count = RAN_COUNT.get();
    let mut text = String::new();
    for number in count.saturating_sub(MARKS)..count {
        let (phase, name) = RAN.with(|ran| ran.get(number % MARKS).map_or(("", ""), Cell::get));
        text.push_str(if text.is_empty() { " (" } else { ", " });
        text.push_str(phase);
        text.push(' ');
        text.push_str(name);
    }
    if !text.is_empty() {
        text.push(')');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_is_told_as_far_as_it_is_remembered() {
        assert_eq!(ran(), "");
        mark("rewrite", "key-auth");
        mark("access", "limit-count");
        assert_eq!(ran(), " (rewrite key-auth, access limit-count)");
        (0..MARKS).for_each(|_| mark("log", "syslog"));
        assert_eq!(ran().matches("log syslog").count(), MARKS);
        assert!(!ran().contains("key-auth"));
    }
}
