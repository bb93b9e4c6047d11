//! What the Lua that runs right now works on: the request, the chunk of a body filter, and how the call shall end.
//!
//! Lua's functions are made once per worker and cannot hold a request; they find it here. The slots are set for the
//! time of one call only, so nothing of a request outlives its phase.

use std::cell::{Cell, RefCell};

use scoped_tls_hkt::scoped_thread_local;
use tidegate_plugin_api::{BodyChunk, Request};

scoped_thread_local!(static mut REQUEST: Request);
scoped_thread_local!(static mut CHUNK: BodyChunk);
// While routes are matched the request may only be read.
scoped_thread_local!(static MATCHING: Request);

/// The phase a function runs in, as `ngx.get_phase` names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Loading and checking: there is no request.
    #[default]
    Load,
    Match,
    Rewrite,
    Access,
    BeforeProxy,
    HeaderFilter,
    BodyFilter,
    /// Behind the body filter.
    DelayedBodyFilter,
    Log,
    /// A function that runs later, without a request.
    Timer,
}

impl Phase {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Phase::Load => "init",
            Phase::Match | Phase::Rewrite | Phase::Access => "access",
            Phase::BeforeProxy => "balancer",
            Phase::HeaderFilter => "header_filter",
            Phase::BodyFilter | Phase::DelayedBodyFilter => "body_filter",
            Phase::Log => "log",
            Phase::Timer => "timer",
        }
    }

    /// Whether an answer can still be made.
    pub(crate) fn may_answer(self) -> bool {
        matches!(self, Phase::Rewrite | Phase::Access | Phase::BeforeProxy)
    }

    pub(crate) fn has_response(self) -> bool {
        self.is_of_chunks() || matches!(self, Phase::HeaderFilter | Phase::Log)
    }

    /// It runs for each piece of a body.
    pub(crate) fn is_of_chunks(self) -> bool {
        matches!(self, Phase::BodyFilter | Phase::DelayedBodyFilter)
    }
}

/// How the running call shall end.
#[derive(Default)]
pub(super) struct Call {
    pub phase: Cell<Phase>,
    /// `ngx.exit` was called with this.
    pub exit: Cell<Option<i32>>,
    /// `ngx.status` as set before there is a response.
    pub status: Cell<u16>,
    /// Bytes of headers and variables that the call has set.
    pub written: Cell<usize>,
    /// `ngx.say` and `ngx.print`.
    pub output: RefCell<Vec<u8>>,
    /// It is a coroutine, and what it yields is waited for.
    pub may_wait: Cell<bool>,
}

/// Begins a call, or goes on with one that waited.
pub(super) fn begin(phase: Phase, may_wait: bool) {
    CALL.with(|call| {
        call.phase.set(phase);
        call.exit.set(None);
        call.status.set(0);
        call.written.set(0);
        call.output.borrow_mut().clear();
        call.may_wait.set(may_wait);
    });
}

thread_local! {
    static CALL: Call = Call::default();
}

/// Bytes that `ngx.say` may collect.
pub(super) const MAX_OUTPUT_BYTES: usize = 16 << 20;

/// Names of headers and variables; nothing has a longer one.
pub(crate) const MAX_NAME_BYTES: usize = 1 << 10;

/// Bytes of headers and variables that one call may set.
pub(super) const MAX_WRITTEN_BYTES: usize = 1 << 20;

/// What one field takes beside its name and value: so there are at most a thousand of them, each looked for by name.
pub(crate) const FIELD_BYTES: usize = 1 << 10;

/// Counts what a call puts into the request or answer, beyond the interpreter's memory.
pub(super) fn write(bytes: usize) -> mlua::Result<()> {
    let written = CALL.with(|call| {
        call.written.set(call.written.get().saturating_add(bytes));
        call.written.get()
    });
    if written > MAX_WRITTEN_BYTES {
        Err(mlua::Error::runtime("too many headers and variables"))
    } else {
        Ok(())
    }
}

pub(super) fn call<R>(visit: impl FnOnce(&Call) -> R) -> R {
    CALL.with(visit)
}

pub(crate) fn with_request<R>(request: &mut Request, run: impl FnOnce() -> R) -> R {
    REQUEST.set(request, run)
}

pub(crate) fn with_chunk<R>(chunk: &mut BodyChunk, run: impl FnOnce() -> R) -> R {
    CHUNK.set(chunk, run)
}

pub(crate) fn with_matching<R>(request: &Request, run: impl FnOnce() -> R) -> R {
    MATCHING.set(request, run)
}

fn no_request() -> mlua::Error {
    mlua::Error::runtime("API disabled in the current context: there is no request")
}

/// Reads the request. `visit` must not call Lua.
pub(super) fn read<R>(visit: impl FnOnce(&Request) -> R) -> mlua::Result<R> {
    if REQUEST.is_set() {
        Ok(REQUEST.with(|request| visit(request)))
    } else if MATCHING.is_set() {
        Ok(MATCHING.with(visit))
    } else {
        Err(no_request())
    }
}

/// Changes the request. `visit` must not call Lua.
pub(super) fn edit<R>(visit: impl FnOnce(&mut Request) -> R) -> mlua::Result<R> {
    if REQUEST.is_set() { Ok(REQUEST.with(visit)) } else { Err(no_request()) }
}

/// The chunk of the running body filter. `visit` must not call Lua.
pub(super) fn chunk<R>(visit: impl FnOnce(&mut BodyChunk) -> R) -> Option<R> {
    CHUNK.is_set().then(|| CHUNK.with(visit))
}
