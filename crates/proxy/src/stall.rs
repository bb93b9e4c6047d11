//! Stall watch: how long a worker's loop was held up, and by what.
//!
//! A worker does one thing at a time: a task that takes a millisecond delays all others by one. Tasks are watched with
//! one read of the clock per poll; a poll begins where the one before it ended, or where the loop woke up. A poll longer
//! than [`LIMIT`] is counted by length, and logged at level debug with the plugins that ran in it.
//!
//! A warning is for what an operator can act on: a task that itself computed for [`WARNED`]. The CPU time of the thread
//! distinguishes that from a machine that was busy with other threads or other guests.
//!
//! A poll that does not end is not reported here: see [`crate::watchdog`].

pub(super) mod record;

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use tidegate_plugin_api::poll_clock;

use crate::runtime::Runtime;

pub(crate) use self::record::LIMIT;

/// The loop has slept and wakes up. For the runtime's hook.
pub(crate) fn awake() {
    poll_clock::begin(Instant::now());
}

/// A task whose polls are timed.
pub(crate) fn watched<F: Future<Output = ()>>(
    worker: &'static Runtime,
    what: &'static str,
    task: F,
) -> impl Future<Output = ()> {
    Watched { worker, what, task }
}

pin_project_lite::pin_project! {
    struct Watched<F> {
        worker: &'static Runtime,
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
            poll_clock::begin(now).map_or(Duration::ZERO, |began| now.saturating_duration_since(began));
        if took >= LIMIT {
            this.worker.stalls.report(this.worker.index, &this.worker.stats, this.what, now, took);
        }
        this.worker.stalls.count_poll();
        result
    }
}
