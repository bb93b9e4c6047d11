//! How long the Lua that runs right now may continue.
//!
//! One deadline per thread, set for the time of a call. All code that works for Lua asks here: the instruction hook and
//! the allocator ([`super::bounds`]), patterns ([`super::pattern`]), and every function of ours that Lua calls. The
//! clock is the kernel's coarse one: 5 ns a look, at most some milliseconds behind.
//!
//! What counts is time on a processor. Reading that takes a system call, so it is read only when a call has lasted
//! for [`FIRST_LOOK`], and when its time seems to be up: what the thread did not get is added, up to
//! [`MOST_TIMES`] the limit, of which one gap between two looks is once at most (a machine that stands still for a second is
//! not the call's). Before the first reading, it is unknown what the thread got. Looks are some 20 us of work apart, so
//! a call that reaches its first one late lacked a processor: it is charged what a look in time would have seen.

use std::{cell::Cell, sync::OnceLock, time::Duration};

use rustix::time::{ClockId, clock_gettime};

/// From here on the thread's own account is compared with the clock.
const FIRST_LOOK: u64 = 4_000_000;

/// The most that a call is charged for the time before its first reading: the coarse clock may be a step behind.
const MOST_UNSEEN: u64 = FIRST_LOOK + LEAST_LEFT;

/// A call may last so many times its limit when the thread gets no processor.
const MOST_TIMES: u64 = 10;

/// What is less is not worth another look: the coarse clock's step.
const LEAST_LEFT: u64 = 4_000_000;

/// The time of the running call, in nanoseconds.
#[derive(Clone, Copy, Default)]
struct Plan {
    begun: u64,
    limit: u64,
    /// When the thread's account was read first, and what it said.
    account: Option<(u64, u64)>,
    /// The last look, and how long the call has lasted until then.
    looked_at: u64,
    lasted: u64,
    over: bool,
}

thread_local! {
    /// When to look closer, by the coarse clock; 0 while nothing runs.
    static LOOK_AT: Cell<u64> = const { Cell::new(0) };
    /// What the largest block of memory can cost until the next look.
    static RESERVE: Cell<u64> = const { Cell::new(0) };
    static PLAN: Cell<Plan> = const { Cell::new(Plan { begun: 0, limit: 0, account: None, looked_at: 0, lasted: 0, over: false }) };
}

/// `plugin_attr.serverless.time_limit_ms`, 50 by default: one call may run that long on a worker.
pub(crate) fn time_limit() -> Duration {
    static LIMIT: OnceLock<Duration> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let configured = ["serverless", "serverless-pre-function"].into_iter().find_map(|name| {
            tidegate_plugin_api::host::plugin_attribute(name)?
                .get("time_limit_ms")
                .and_then(serde_json::Value::as_u64)
        });
        Duration::from_millis(configured.unwrap_or(50).clamp(1, 60_000))
    })
}

/// A bound on work that is not stopped in between, given for the default limit of 50 ms; longer limits allow more.
pub(super) fn scaled(bound: usize) -> usize {
    let times = time_limit().as_millis() as f64 / 50.0;
    (bound as f64 * times.max(1.0)) as usize
}

fn nanoseconds(clock: ClockId) -> u64 {
    let now = clock_gettime(clock);
    (now.tv_sec as u64) * 1_000_000_000 + now.tv_nsec as u64
}

fn now() -> u64 {
    nanoseconds(ClockId::MonotonicCoarse)
}

/// Keeps back a part of the call's time, at most three fifths of it: one instruction may work on a whole block of memory.
pub(super) fn reserve(milliseconds: u64) {
    RESERVE.set(milliseconds * 1_000_000);
}

/// Whether the running call has used its time up.
pub(super) fn expired() -> bool {
    let at = LOOK_AT.get();
    at != 0 && now() + RESERVE.get() >= at && is_over()
}

#[cold]
fn is_over() -> bool {
    let mut plan = PLAN.get();
    if !plan.over {
        let next = plan.next_look(now(), nanoseconds(ClockId::ThreadCPUTime));
        plan.over = next.is_none();
        PLAN.set(plan);
        LOOK_AT.set(next.unwrap_or(1));
    }
    plan.over
}

impl Plan {
    /// When to look again; `None`: the time is up.
    fn next_look(&mut self, now: u64, used: u64) -> Option<u64> {
        let (read_at, read) = *self.account.get_or_insert((now, used));
        let limit = self.limit - RESERVE.get().min(self.limit / 5 * 3);
        let spent = self.unseen(read_at) + used.saturating_sub(read);
        self.lasted += now.saturating_sub(self.looked_at).min(self.limit);
        self.looked_at = now;
        let left = limit.saturating_sub(spent).min((MOST_TIMES * limit).saturating_sub(self.lasted));
        (left >= LEAST_LEFT.min(limit / 5)).then_some(now + left + RESERVE.get())
    }

    /// What is charged for the time before the first reading.
    fn unseen(&self, read_at: u64) -> u64 {
        (read_at - self.begun).min(MOST_UNSEEN + RESERVE.get())
    }
}

/// Runs something under the time limit. What is called inside of it shares its time.
pub(super) fn limited<R>(run: impl FnOnce() -> R) -> R {
    limited_by(time_limit(), run)
}

/// As [`limited`] for code that writes a text of that size again: 20 ms more for each MiB.
pub(crate) fn limited_for<R>(bytes: usize, run: impl FnOnce() -> R) -> R {
    limited_by(time_limit() + Duration::from_millis((bytes >> 20) as u64 * 20), run)
}

pub(crate) fn limited_by<R>(limit: Duration, run: impl FnOnce() -> R) -> R {
    /// Ends the time even when a panic passes.
    struct Running(bool);
    impl Drop for Running {
        fn drop(&mut self) {
            if self.0 {
                LOOK_AT.set(0);
            }
        }
    }
    let running = Running(LOOK_AT.get() == 0);
    if running.0 {
        let (begun, limit) = (now(), limit.as_nanos() as u64);
        PLAN.set(Plan { begun, limit, looked_at: begun, ..Plan::default() });
        LOOK_AT.set(begun + FIRST_LOOK.min(limit));
    }
    run()
}

/// Whether the call that ended last had used its time up.
pub(crate) fn ran_out() -> bool {
    PLAN.get().over
}

/// What the call that ended last took; nothing when that was short.
pub(crate) fn lasted() -> Duration {
    let plan = PLAN.get();
    let Some((read_at, read)) = plan.account else { return Duration::ZERO };
    Duration::from_nanos(plan.unseen(read_at) + nanoseconds(ClockId::ThreadCPUTime).saturating_sub(read))
}

/// Time on a processor that something takes.
pub(super) fn measured<R>(run: impl FnOnce() -> R) -> (R, Duration) {
    let before = nanoseconds(ClockId::ThreadCPUTime);
    let result = run();
    (result, Duration::from_nanos(nanoseconds(ClockId::ThreadCPUTime).saturating_sub(before)))
}

/// The error that ends a call whose time is up.
pub(super) fn message() -> String {
    format!("time limit of {} ms exceeded", time_limit().as_millis())
}

/// Names the time where it is up: memory that was refused for it looks like a lack of memory.
pub(super) fn in_time(error: mlua::Error) -> mlua::Error {
    match error {
        mlua::Error::MemoryError(_) if expired() => mlua::Error::runtime(message()),
        other => other,
    }
}

/// For work of ours that Lua starts: an error when the time is up.
pub(super) fn check_time() -> mlua::Result<()> {
    if expired() { Err(mlua::Error::runtime(message())) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a look at the clock and at the thread's account decides, in milliseconds.
    #[test]
    fn time_without_a_processor_is_added() {
        const MS: u64 = 1_000_000;
        // The thread had computed for a second when the call began.
        let cases: [(&str, &[(u64, u64, Option<u64>)]); 5] = [
            ("it computes", &[(4, 1004, Some(50)), (50, 1050, None)]),
            ("it gets half of the processor", &[(4, 1004, Some(50)), (50, 1027, Some(73)), (74, 1050, None)]),
            (
                "it gets nothing",
                &[
                    (4, 1004, Some(50)),
                    (50, 1005, Some(95)),
                    (95, 1005, Some(140)),
                    (145, 1005, Some(190)),
                    (195, 1005, Some(240)),
                    (245, 1005, Some(290)),
                    (295, 1005, Some(340)),
                    (345, 1005, Some(390)),
                    (395, 1005, Some(440)),
                    (445, 1005, Some(490)),
                    (490, 1005, Some(500)),
                    (500, 1005, None),
                ],
            ),
            (
                "the machine stands still",
                &[(4, 1004, Some(50)), (5000, 1005, Some(5045)), (5045, 1050, None)],
            ),
            ("it gets nothing before the first look", &[(60, 1000, Some(102)), (102, 1042, None)]),
        ];
        for (what, looks) in cases {
            let mut plan = Plan { limit: 50 * MS, ..Plan::default() };
            for (now, used, next) in looks {
                assert_eq!(plan.next_look(now * MS, used * MS), next.map(|ms| ms * MS), "{what} at {now} ms");
            }
        }
    }
}
