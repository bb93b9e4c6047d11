//! What belongs to one instance beside its memory.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use tidegate_clients::http::Incoming;
use wasmtime::{Memory, TypedFunc};

use super::{calls::Dispatched, contexts::Contexts, deadline::Deadline, room::Room};

/// The callback that runs, as far as host functions ask.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Entry {
    /// Of the module or of a configuration, outside of requests.
    #[default]
    Root,
    RequestHeaders,
    RequestBody,
    RequestTrailers,
    ResponseHeaders,
    ResponseBody,
    ResponseTrailers,
    /// The response is complete, and waits.
    ResponsePaused,
    Log,
}

impl Entry {
    pub(super) fn is_request(self) -> bool {
        matches!(self, Entry::RequestHeaders | Entry::RequestBody | Entry::RequestTrailers)
    }
}

/// What is to be done once a callback has returned.
pub(super) enum Wish {
    /// `proxy_http_call`
    Call(Box<Dispatched>),
    /// The period of a configuration's timer was set.
    Tick(u32),
    /// A configuration listens to a queue.
    Listen { context: u32, queue: u32 },
}

pub(super) struct State {
    pub plugin: &'static str,
    pub room: Room,
    pub deadline: Deadline,
    pub memory: Option<Memory>,
    /// `proxy_on_memory_allocate`, or `malloc`.
    pub allocate: Option<TypedFunc<u32, u32>>,
    pub contexts: Contexts,
    /// The context that was entered, and the one that functions act on (`proxy_set_effective_context`).
    pub entered: u32,
    pub effective: u32,
    pub entry: Entry,
    /// Fields behind the request's body: they are not in the request that plugins see.
    pub trailers: Option<tidegate_protocol::Head>,
    /// The answer that `proxy_on_http_call_response` is called with.
    pub answer: Option<Arc<Incoming>>,
    pub wishes: Vec<Wish>,
    pub next_call: u32,
    /// Calls that were begun and not answered.
    pub calls: u32,
    /// `proxy_done` was called for these.
    pub done: Vec<u32>,
    /// Only looked at: timers do not run, and calls are not sent.
    pub is_trial: bool,
    /// How many seconds the process has run is what `CLOCK_MONOTONIC` says.
    pub started: std::time::Instant,
    /// The configuration that is handed over while its context begins.
    pub vm_conf: Bytes,
}

impl State {
    pub(super) fn new(plugin: &'static str, room: Room, limit: Duration) -> State {
        State {
            plugin,
            room,
            deadline: Deadline::new(limit),
            memory: None,
            allocate: None,
            contexts: Contexts::default(),
            entered: 0,
            effective: 0,
            entry: Entry::Root,
            trailers: None,
            answer: None,
            wishes: Vec::new(),
            next_call: 0,
            calls: 0,
            done: Vec::new(),
            is_trial: false,
            started: std::time::Instant::now(),
            vm_conf: Bytes::new(),
        }
    }

    /// Whether functions act on the request of the callback that runs.
    pub(super) fn is_own(&self) -> bool {
        self.effective == self.entered
    }
}
