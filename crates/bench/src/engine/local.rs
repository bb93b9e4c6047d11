//! A thread with its own runtime, whose tasks share what the thread has.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use tokio::{
    task::{JoinHandle, LocalSet},
    time::{Instant, sleep},
};

use super::{
    clock::{Clock, nanos, thread_cpu_ns},
    ending::Ending,
};
use crate::{Plan, Problem};

const TICK: Duration = Duration::from_millis(20);
/// Timers of the runtime count milliseconds; the last one is waited out by yielding.
const TIMER_STEP_NS: u64 = 2_000_000;

/// How long a thread was at it, and what that took.
pub(crate) struct Took {
    pub(crate) end_ns: u64,
    pub(crate) cpu_ns: u64,
    pub(crate) waited_ns: u64,
}

/// Runs the tasks that `start` makes until all have ended or the run has; `tick` is called now and then. What `warm` does
/// with them comes before the run, and may give it another clock.
pub(super) fn run(
    plan: &Plan,
    clock: impl Fn() -> Clock,
    stop: &Arc<AtomicBool>,
    ending: &Ending,
    mut tick: impl FnMut(),
    start: impl FnOnce(&LocalSet) -> Vec<JoinHandle<()>>,
    warm: impl Future<Output = ()>,
) -> Result<Took, Problem> {
    std::thread::sleep(clock().until_start());
    let end_ns = plan.duration.map_or(u64::MAX, nanos);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Problem::failed(format!("cannot start a runtime: {error}")))?;
    let local = LocalSet::new();
    let tasks = start(&local);
    local.block_on(&runtime, warm);
    let clock = clock();
    let (cpu_before, waited_before) = (thread_cpu_ns(), crate::system::thread_wait_ns());
    local.block_on(&runtime, async {
        let all = async {
            for task in tasks {
                // A panic of a task is a bug that the join of the thread reports by its missing figures.
                let _ = task.await;
            }
        };
        let ticks = async {
            while clock.now() < end_ns && !stop.load(Relaxed) {
                tick();
                sleep(TICK.min(Duration::from_nanos(end_ns.saturating_sub(clock.now())))).await;
            }
        };
        tokio::select! { () = all => {}, () = ticks => {} }
    });
    let end_ns = clock.now();
    let cpu_ns = thread_cpu_ns() - cpu_before;
    let waited_ns = crate::system::thread_wait_ns().saturating_sub(waited_before);
    ending.arrive(end_ns as f64 / 1e9);
    ending.wait();
    Ok(Took { end_ns, cpu_ns, waited_ns })
}

pub(super) async fn wait_until(due: u64, clock: &Clock) {
    loop {
        let left = due.saturating_sub(clock.now());
        if left == 0 {
            return;
        }
        if left > TIMER_STEP_NS {
            tokio::time::sleep_until(Instant::now() + Duration::from_nanos(left - TIMER_STEP_NS)).await;
        } else {
            tokio::task::yield_now().await;
        }
    }
}
