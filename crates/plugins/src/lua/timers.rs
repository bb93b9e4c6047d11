//! `ngx.timer`: functions that run later, on the same worker and beside its requests.
//!
//! A worker has a bounded number of them. One that has computed for a while makes all wait four times as long, so that timers
//! have a fifth of the worker at most.

use std::{
    cell::Cell,
    rc::{Rc, Weak},
    time::{Duration, Instant},
};

use mlua::{Function, Lua, MultiValue, Table, Value};
use tidegate_telemetry::error_log::{self, Level};

use super::{
    chunk, clock, current,
    vm::{self, Vm},
    waiting::{self, Woken},
};

/// Timers of a worker that wait or run.
const MAX_TIMERS: usize = 256;
/// So many times as long as a timer computed, none runs.
const PAUSE: u32 = 4;
/// A timer that repeats itself waits so long at least.
const LEAST: Duration = Duration::from_millis(10);
const MOST: Duration = Duration::from_secs(30 * 24 * 3600);

thread_local! {
    static TIMERS: Cell<usize> = const { Cell::new(0) };
    static NEXT: Cell<Option<Instant>> = const { Cell::new(None) };
}

struct Counted;

impl Drop for Counted {
    fn drop(&mut self) {
        TIMERS.set(TIMERS.get().saturating_sub(1));
    }
}

type Started = (Option<bool>, Option<&'static str>);

/// Starts a timer: delay, whether it repeats itself, the function, its globals. Workers offer it; elsewhere nothing runs later.
pub(super) fn function(lua: &Lua) -> mlua::Result<Function> {
    lua.create_function(|_, (seconds, repeats, function, environment): (f64, bool, Function, Table)| {
        start(seconds, repeats, function, environment)
    })
}

fn start(seconds: f64, repeats: bool, function: Function, environment: Table) -> mlua::Result<Started> {
    if seconds.is_nan() || seconds < 0.0 {
        return Err(mlua::Error::runtime("invalid delay of a timer"));
    }
    if TIMERS.get() >= MAX_TIMERS {
        return Ok((None, Some("too many pending timers")));
    }
    TIMERS.set(TIMERS.get() + 1);
    let delay = Duration::try_from_secs_f64(seconds).unwrap_or(MOST).min(MOST);
    let vm = Rc::downgrade(&vm::vm().map_err(mlua::Error::runtime)?);
    let timer = Timer { vm, function, environment, _counted: Counted };
    tokio::task::spawn_local(async move {
        loop {
            tokio::time::sleep(if repeats { delay.max(LEAST) } else { delay }).await;
            if timer.run().await.is_none() || !repeats {
                return;
            }
        }
    });
    Ok((Some(true), None))
}

struct Timer {
    vm: Weak<Vm>,
    function: Function,
    environment: Table,
    _counted: Counted,
}

impl Timer {
    /// `None`: its interpreter was replaced.
    async fn run(&self) -> Option<()> {
        while let Some(next) = NEXT.get().filter(|next| *next > Instant::now()) {
            tokio::time::sleep_until(next.into()).await;
        }
        let vm = self.vm.upgrade().filter(vm::is_current)?;
        if let Err(error) = self.call(&vm).await {
            error_log::log(
                Level::Error,
                format_args!("failed to run a Lua timer: {}", chunk::message(&error)),
            );
        }
        vm::tidy(&vm);
        Some(())
    }

    async fn call(&self, vm: &Rc<Vm>) -> mlua::Result<()> {
        let thread = vm.lua.create_thread(vm.run.clone())?;
        let mut left = clock::time_limit();
        let begin = (&self.function, false, Value::Nil, &self.environment);
        let mut result = piece(&mut left, || thread.resume::<MultiValue>(begin));
        while thread.is_resumable() {
            let woken = match waiting::wait(&vm.lua, None, result?).await? {
                Woken::With(values) => values,
                Woken::Answered(_) => MultiValue::new(),
            };
            result = piece(&mut left, || thread.resume::<MultiValue>(woken));
        }
        match (result, current::call(|call| call.exit.take())) {
            (Err(error), None) => Err(error),
            _ => Ok(()),
        }
    }
}

/// Computes for a while. All that a timer computes has the time of one call.
fn piece<R>(left: &mut Duration, run: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
    current::begin(current::Phase::Timer, true);
    let (result, took) = clock::measured(|| clock::limited_by(*left, || run().map_err(clock::in_time)));
    current::call(|call| {
        call.phase.set(current::Phase::Load);
        call.may_wait.set(false);
        call.output.borrow_mut().clear();
    });
    *left = left.saturating_sub(took);
    if took > Duration::from_millis(1) {
        NEXT.set(Some(Instant::now() + took * PAUSE));
    }
    match left.is_zero() {
        true => result.and(Err(mlua::Error::runtime(clock::message()))),
        false => result,
    }
}
