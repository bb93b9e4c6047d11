//! What the callback that runs right now works on: the request, and the piece of a body filter. They are set for the time of one
//! call, as for Lua, so nothing of a request outlives its phase.

use scoped_tls_hkt::scoped_thread_local;
use tidegate_plugin_api::{BodyChunk, Request};

scoped_thread_local!(static mut REQUEST: Request);
scoped_thread_local!(static mut CHUNK: BodyChunk);

pub(super) fn with_request<R>(request: &mut Request, run: impl FnOnce() -> R) -> R {
    REQUEST.set(request, run)
}

pub(super) fn with_chunk<R>(chunk: &mut BodyChunk, run: impl FnOnce() -> R) -> R {
    CHUNK.set(chunk, run)
}

/// `None`: the callback belongs to no request.
pub(super) fn request<R>(visit: impl FnOnce(&mut Request) -> R) -> Option<R> {
    REQUEST.is_set().then(|| REQUEST.with(visit))
}

/// `None`: no body passes.
pub(super) fn chunk<R>(visit: impl FnOnce(&mut BodyChunk) -> R) -> Option<R> {
    CHUNK.is_set().then(|| CHUNK.with(visit))
}
