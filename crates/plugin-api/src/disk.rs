//! Threads that may wait for a disk, so that workers do not: opening files and reading what no cache holds.
//!
//! Few threads behind a bounded queue: a slow disk causes refusals, not memory growth. Started by the first job.

use std::{
    collections::VecDeque,
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        OnceLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

const DEFAULT_THREADS: usize = 4;
const DEFAULT_QUEUE: usize = 4096;

static THREADS: AtomicUsize = AtomicUsize::new(DEFAULT_THREADS);
static QUEUE: AtomicUsize = AtomicUsize::new(DEFAULT_QUEUE);
static POOL: OnceLock<Pool> = OnceLock::new();

type Job = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Pool {
    jobs: Mutex<VecDeque<Job>>,
    waiting: Condvar,
}

/// The queue is full, or no thread could be started: the job was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// Sets how many threads there are, and how many jobs may wait for them. Has an effect only before the first
/// job.
pub fn configure(threads: usize, queue: usize) {
    THREADS.store(threads.max(1), Ordering::Relaxed);
    QUEUE.store(queue.max(1), Ordering::Relaxed);
}

/// Queues a job; the future gives its result, or `None` if it panicked. Dropping the future does not cancel the job.
pub fn run<T: Send + 'static>(
    job: impl FnOnce() -> T + Send + 'static,
) -> Result<impl Future<Output = Option<T>>, Full> {
    let (send, receive) = oneshot::channel();
    enqueue(Box::new(move || {
        // The receiver may be gone: then the result is dropped.
        let _ = send.send(job());
    }))?;
    Ok(async move { receive.await.ok() })
}

/// Queues a job without waiting for its result.
pub fn enqueue(job: Job) -> Result<(), Full> {
    let pool = POOL.get_or_init(start);
    {
        let mut jobs = pool.jobs.lock();
        if jobs.len() >= QUEUE.load(Ordering::Relaxed) {
            return Err(Full);
        }
        jobs.push_back(job);
    }
    pool.waiting.notify_one();
    Ok(())
}

fn start() -> Pool {
    for number in 0..THREADS.load(Ordering::Relaxed) {
        // Without any thread the queue fills up, and callers get `Full`.
        let _ = thread::Builder::new().name(format!("disk-{number}")).spawn(serve);
    }
    Pool::default()
}

fn serve() {
    let pool = POOL.wait();
    loop {
        let job = {
            let mut jobs = pool.jobs.lock();
            loop {
                match jobs.pop_front() {
                    Some(job) => break job,
                    None => pool.waiting.wait(&mut jobs),
                }
            }
        };
        // A job that panics costs its request, not the thread.
        let _ = catch_unwind(AssertUnwindSafe(job));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test: the pool is the process's.
    #[tokio::test]
    async fn jobs_run_elsewhere_and_a_panic_ends_only_its_own() {
        let here = thread::current().id();
        let there = run(move || thread::current().id() != here).unwrap().await;
        assert_eq!(there, Some(true));
        assert_eq!(run(|| -> u8 { panic!("on purpose") }).unwrap().await, None);
        assert_eq!(run(|| 7).unwrap().await, Some(7));
        QUEUE.store(0, Ordering::Relaxed);
        assert_eq!(run(|| 7).map(|_| ()), Err(Full));
        QUEUE.store(DEFAULT_QUEUE, Ordering::Relaxed);
    }
}
