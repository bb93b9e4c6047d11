//! Stall watch: how long a worker's loop was held up, and by what.
//!
//! A worker does one thing after the other: what takes a millisecond delays everybody else by it. Tasks are watched
//! with one look at the clock per poll; a poll begins where the one before it ended, or where the loop woke up. What
//! took longer than [`LIMIT`] is counted by length, and named at level debug with the plugins that ran meanwhile.
//!
//! A warning is for what an operator can act on: a task that itself computed for [`WARNED`]. The thread's own account of
//! time on a processor tells that from a machine that had none to give, be it for other threads or other guests.

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
    polls: Cell<u32>,
    logged: Cell<Option<Instant>>,
    unlogged: Cell<u64>,
}

/// What the kernel says of a thread since it began.
#[derive(Clone, Copy, Debug, Default)]
struct Scheduled {
    ran: Duration,
    waited: Duration,
}

impl Scheduled {
    /// The longest that a task can have computed which was at work for `took`, and began after an `earlier` look.
    /// Where guests are told of it, what other guests took (steal) counts neither as running nor as waiting.
    fn computed(self, earlier: Scheduled, took: Duration) -> Duration {
        let ran = self.ran.saturating_sub(earlier.ran);
        let waited = self.waited.saturating_sub(earlier.waited);
        took.saturating_sub(waited).min(ran)
    }
}

impl Stalls {
    /// On the worker's own thread.
    pub fn of_this_thread() -> Stalls {
        let schedule = File::open("/proc/thread-self/schedstat").ok();
        Stalls {
            schedule,
            looked: Cell::default(),
            polls: Cell::new(0),
            logged: Cell::new(None),
            unlogged: Cell::new(0),
        }
    }

    #[inline]
    fn count_poll(&self) {
        let polls = self.polls.get().wrapping_add(1);
        self.polls.set(polls);
        if polls.is_multiple_of(LOOK_POLLS) {
            self.look();
        }
    }

    /// What a task has computed is told from the last look on: one that is old counts what others did as well.
    #[cold]
    pub fn look(&self) {
        if let Some(scheduled) = self.scheduled() {
            self.looked.set(scheduled);
        }
    }

    fn scheduled(&self) -> Option<Scheduled> {
        let mut text = [0; 96];
        let length = self.schedule.as_ref()?.read_at(&mut text, 0).ok()?;
        let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok())?;
        let mut numbers = text.split_ascii_whitespace().map(|ns| ns.parse().map(Duration::from_nanos));
        let (ran, waited) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        // A kernel that does not count says zero.
        (!ran.is_zero()).then_some(Scheduled { ran, waited })
    }

    #[cold]
    fn report(&self, worker: &Worker, what: &str, now: Instant, took: Duration) {
        let computed = match self.scheduled() {
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
                ran(),
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
    fn time_without_a_processor_is_not_the_tasks() {
        let ms = Duration::from_millis;
        let at = |ran, waited| Scheduled { ran: ms(ran), waited: ms(waited) };
        for (earlier, now, took, computed) in [
            // It computed.
            (at(100, 50), at(130, 50), 30, 30),
            // Other threads had the processor, or other guests, who show in neither number.
            (at(100, 50), at(101, 80), 30, 0),
            (at(100, 50), at(101, 50), 30, 1),
            // Some of both; and what ran before in the same interval is not counted.
            (at(100, 50), at(125, 60), 30, 20),
            (at(100, 50), at(145, 50), 30, 30),
        ] {
            assert_eq!(now.computed(earlier, ms(took)), ms(computed), "{earlier:?} {now:?}");
        }
    }

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
