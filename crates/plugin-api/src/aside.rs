//! Work that is too long for a worker, on the control runtime's threads for blocking work.
//!
//! A worker that parses a large body delays all its other clients. A few such jobs run at a time, at a lower priority
//! than workers; the others wait, each with its memory counted, and client addresses take turns ([`turns`]).

mod turns;
mod whose;

use std::{num::NonZero, sync::LazyLock, thread};

use self::turns::Turns;
pub use self::whose::Whose;
use crate::host;

/// Bodies up to this size are read on the worker: that takes a millisecond or so.
pub const SMALL: usize = 256 << 10;

static TURNS: LazyLock<Turns> = LazyLock::new(|| {
    let processors = thread::available_parallelism().map_or(1, NonZero::get);
    Turns::new(processors.max(2))
});

/// The job was not done: its client has too many that wait, it panicked, or the process ends.
#[derive(Clone, Copy, Debug)]
pub struct Undone;

/// Runs a job elsewhere. The job runs to its end even if the caller no longer waits, and keeps its place
/// until then.
pub async fn run<T: Send + 'static>(
    whose: impl Into<Whose>,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Undone> {
    let host = host().ok_or(Undone)?;
    let place = TURNS.place(whose.into()).await.ok_or(Undone)?;
    let done = host.background.spawn_blocking(move || {
        let _place = place;
        job()
    });
    done.await.map_err(|_| Undone)
}

/// Frees what was read elsewhere: a document of many values takes as long as reading it did.
pub fn release<T: Send + 'static>(value: T) {
    if let Some(host) = host() {
        host.background.spawn_blocking(move || drop(value));
    }
}

/// Runs a job here if it reads little, else elsewhere.
pub async fn run_by_size<T: Send + 'static>(
    whose: impl Into<Whose>,
    bytes: usize,
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Undone> {
    if bytes <= SMALL { Ok(job()) } else { Box::pin(run(whose, job)).await }
}
