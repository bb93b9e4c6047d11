//! How long the Lua that runs right now may go on.
//!
//! One deadline per thread, set for the time of a call. Whoever does work for Lua asks here: the instruction hook and the
//! allocator ([`super::bounds`]), patterns ([`super::pattern`]), and every function of ours that Lua calls. The clock is
//! the kernel's coarse one: 5 ns a look, at most some milliseconds behind.

use std::{cell::Cell, sync::OnceLock, time::Duration};

use rustix::time::{ClockId, clock_gettime};

thread_local! {
    /// Nanoseconds of the coarse clock; 0 while nothing runs.
    static DEADLINE: Cell<u64> = const { Cell::new(0) };
}

/// `plugin_attr.serverless.time_limit_ms`, 50 by default: one call may run that long on a worker.
pub fn time_limit() -> Duration {
    static LIMIT: OnceLock<Duration> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let configured = ["serverless", "serverless-pre-function"].into_iter().find_map(|name| {
            plugin::host::plugin_attribute(name)?.get("time_limit_ms").and_then(serde_json::Value::as_u64)
        });
        Duration::from_millis(configured.unwrap_or(50).clamp(1, 60_000))
    })
}

/// A bound on work that is not stopped in between, given for the default limit of 50 ms; longer limits allow more.
pub fn scaled(bound: usize) -> usize {
    let times = time_limit().as_millis() as f64 / 50.0;
    (bound as f64 * times.max(1.0)) as usize
}

fn now() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

/// Whether the running call has used its time up.
pub fn expired() -> bool {
    let deadline = DEADLINE.get();
    deadline != 0 && now() >= deadline
}

/// Runs something under the time limit. What is called inside of it shares its time.
pub fn limited<R>(run: impl FnOnce() -> R) -> R {
    limited_by(time_limit(), run)
}

/// As [`limited`] for what writes a text of that size once more: 20 ms more for each MiB.
pub fn limited_for<R>(bytes: usize, run: impl FnOnce() -> R) -> R {
    limited_by(time_limit() + Duration::from_millis((bytes >> 20) as u64 * 20), run)
}

fn limited_by<R>(limit: Duration, run: impl FnOnce() -> R) -> R {
    /// Ends the time even when a panic passes.
    struct Running(bool);
    impl Drop for Running {
        fn drop(&mut self) {
            if self.0 {
                DEADLINE.set(0);
            }
        }
    }
    let _running = Running(DEADLINE.get() == 0);
    if _running.0 {
        DEADLINE.set(now() + limit.as_nanos() as u64);
    }
    run()
}

/// The error that ends a call whose time is up.
pub fn message() -> String {
    format!("time limit of {} ms exceeded", time_limit().as_millis())
}

/// Names the time where it is up: memory that was refused for it looks like a lack of memory.
pub fn in_time(error: mlua::Error) -> mlua::Error {
    match error {
        mlua::Error::MemoryError(_) if expired() => mlua::Error::runtime(message()),
        other => other,
    }
}

/// For work of ours that Lua starts: an error when the time is up.
pub fn look() -> mlua::Result<()> {
    if expired() { Err(mlua::Error::runtime(message())) } else { Ok(()) }
}
