//! A route's `filter_func`: a function of the request's variables, called while routes are matched.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use mlua::Value;
use tidegate_plugin_api::{FilterFunction, Request};
use tidegate_telemetry::error_log::{self, Level};

use super::{
    check, chunk, clock,
    current::{self, Phase},
    program::Program,
    vm,
};

pub(super) struct Filter {
    program: Program,
}

impl Filter {
    pub(super) fn new(source: &str) -> Result<Filter, String> {
        let source = format!("return {source}");
        check::check_function(&source)?;
        Ok(Filter { program: Program::new("filter_func", vec![source], serde_json::Value::Null) })
    }

    fn call(&self, request: &Request) -> mlua::Result<bool> {
        let vm = vm::vm().map_err(mlua::Error::runtime)?;
        let loaded = self.program.loaded(&vm)?;
        let Some(function) = loaded.functions.first() else { return Ok(false) };
        current::call(|call| call.phase.set(Phase::Match));
        let result = shared_time(request, || {
            current::with_matching(request, || {
                vm.run.call::<Value>((function, &vm.variables, Value::Nil, &loaded.environment))
            })
        });
        vm::tidy(&vm);
        current::call(|call| {
            call.phase.set(Phase::Load);
            call.exit.set(None);
            call.output.borrow_mut().clear();
        });
        result.map(|value| !matches!(value, Value::Nil | Value::Boolean(false)))
    }
}

thread_local! {
    /// When the request that was matched last began, and what functions took for it.
    static MATCHED: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
}

/// The functions of all routes that are tried for a request share the time of one call: nothing else runs between
/// them.
fn shared_time<R>(request: &Request, run: impl FnOnce() -> mlua::Result<R>) -> mlua::Result<R> {
    let before = MATCHED.get().filter(|(began, _)| *began == request.started);
    let spent = before.map_or(Duration::ZERO, |(_, spent)| spent);
    let left = clock::time_limit().saturating_sub(spent);
    if left.is_zero() {
        return Err(mlua::Error::runtime(clock::message()));
    }
    let result = clock::limited_by(left, || run().map_err(clock::in_time));
    let lasted = clock::lasted();
    if !lasted.is_zero() {
        MATCHED.set(Some((request.started, spent + lasted)));
    }
    result
}

impl FilterFunction for Filter {
    /// If the function fails, it is unknown whether the route is for the request, which is refused as in APISIX.
    fn matches(&self, request: &Request) -> bool {
        // Refused already, by a function of another route.
        if request.require_decided().is_err() {
            return false;
        }
        self.call(request).unwrap_or_else(|error| {
            error_log::log(
                Level::Error,
                format_args!("failed to run filter_func: {}", chunk::message(&error)),
            );
            request.set_undecided(500);
            false
        })
    }
}
