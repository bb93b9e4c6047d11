//! What happened to a request, for logs and metrics.

use std::{net::SocketAddr, time::Instant};

use smallvec::SmallVec;

use crate::upstream::Peer;

/// One try to reach an upstream node.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The node's; of an unresolved name never connected to.
    pub address: SocketAddr,
    /// 0 without a response: then 502 or 504 in `$upstream_status`. See also [`Attempt::ABANDONED`].
    pub status: u16,
    /// `$upstream_connect_time`; `None`: no connection, or one from the pool.
    pub connect_seconds: Option<f64>,
    /// `$upstream_header_time`; `None`: no head came.
    pub header_seconds: Option<f64>,
    /// `$upstream_response_time`: from the choice of the node to the last byte, or to the failure.
    pub response_seconds: f64,
}

impl Attempt {
    /// The status of a try whose end the client did not wait for.
    pub const ABANDONED: u16 = 1;
}

/// What logs, metrics and `$variables` tell of a request after its answer.
#[derive(Default)]
pub struct RequestLog {
    /// In order; the last one is the answer's, if any node answered.
    pub attempts: SmallVec<[Attempt; 1]>,
    /// Bytes sent to the client, head included.
    pub bytes_sent: u64,
    /// `$body_bytes_sent`: of the answer, framing excluded.
    pub body_bytes_sent: u64,
    /// Bytes of the request: head and body as received.
    pub request_length: u64,
    /// When the answer was out; `None` before.
    pub finished: Option<Instant>,
    /// Target that was sent upstream.
    pub(crate) upstream_target: Vec<u8>,
    /// `$upstream_host`: the `Host` that was sent upstream.
    pub upstream_host: Vec<u8>,
    /// The node of the last attempt.
    pub peer: Option<Peer>,
}
