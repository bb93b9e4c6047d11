//! What a thread counts beyond requests and answers. A run of plain HTTP leaves it empty.

use hdrhistogram::Histogram;

use super::histogram::histogram;
use crate::grpc::CODES;

#[derive(Debug, Default)]
pub(crate) struct Beyond {
    pub grpc: Calls,
    pub events: Events,
    pub echo: Echo,
    pub visits: Visits,
}

/// Calls of gRPC that failed, and messages that came.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    pub failed: [u64; CODES],
    pub messages: u64,
}

impl Calls {
    pub(crate) fn count(&mut self, code: u32) {
        if let Some(count) = self.failed.get_mut(code as usize) {
            *count += 1;
        }
    }
}

/// Server-sent events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    pub count: u64,
    /// Between one event and the next of the same stream.
    pub gaps: Option<Histogram<u64>>,
    /// Streams that began, that the server ended, and that were open when the run ended.
    pub opened: u64,
    pub ended: u64,
    pub open: u64,
    /// The longest time since the last event of a stream at the end of the run.
    pub(crate) silence_ns: u64,
}

impl Events {
    pub(crate) fn gap(&mut self, ns: u64) {
        self.gaps.get_or_insert_with(histogram).saturating_record(ns);
    }

    /// A stream at the end of the run, and how long it has been silent.
    pub(crate) fn still_open(&mut self, silence_ns: u64) {
        self.open += 1;
        self.silence_ns = self.silence_ns.max(silence_ns);
    }
}

/// WebSocket.
#[derive(Debug, Default)]
pub(crate) struct Echo {
    /// From connecting to the 101.
    pub upgrades: Option<Histogram<u64>>,
    /// Messages that were not echoes.
    pub others: u64,
}

impl Echo {
    pub(crate) fn upgraded(&mut self, ns: u64) {
        self.upgrades.get_or_insert_with(histogram).saturating_record(ns);
    }
}

/// Redirects and cookies.
#[derive(Debug, Default)]
pub(crate) struct Visits {
    pub redirects: u64,
    /// Redirects to other servers, which are not followed.
    pub elsewhere: u64,
    /// Times that a cookie was set.
    pub cookies: u64,
}
