//! What runs have that are more than requests and answers.

use serde::{Deserialize, Serialize};

use super::latency::Latency;

/// A run of gRPC.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Grpc {
    /// Calls by `grpc-status`, those with 0 first.
    pub statuses: Vec<GrpcStatus>,
    /// Messages of all answers, those of calls without an end as well.
    pub messages: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct GrpcStatus {
    pub code: u32,
    pub name: String,
    pub calls: u64,
}

/// A run of server-sent events.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Events {
    pub count: u64,
    /// Between one event and the next of the same stream.
    pub gaps: Latency,
    /// Streams that began, that the server ended, and that were open when the run ended.
    pub opened: u64,
    pub ended: u64,
    pub open: u64,
    /// The longest time since the last event of an open stream (since its beginning, without one) at the end.
    pub silence_ms: f64,
}

impl Events {
    /// The longest that a stream was silent, in microseconds.
    pub(crate) fn longest_us(&self) -> f64 {
        self.gaps.max_us.max(self.silence_ms * 1000.0)
    }
}

/// A run of WebSocket.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct WebSocket {
    /// From connecting to the 101.
    pub upgrades: Latency,
    /// Messages of the server that were not echoes.
    pub others: u64,
}

/// A run that follows redirects or keeps cookies; its requests are visits.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Visits {
    pub redirects: u64,
    /// Redirects to other servers, which were not followed.
    pub elsewhere: u64,
    /// Times that a cookie was set.
    pub cookies: u64,
}
