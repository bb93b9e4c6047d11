//! What happened to a request, for logs and metrics.

use std::{net::SocketAddr, time::Instant};

use smallvec::SmallVec;

use crate::upstream::Peer;

/// One try to reach an upstream node.
#[derive(Clone, Debug)]
pub struct Attempt {
    pub address: SocketAddr,
    /// 0 without a response: then 502 or 504 in `$upstream_status`. See also [`Attempt::ABANDONED`].
    pub status: u16,
    pub connect_seconds: Option<f64>,
    pub header_seconds: Option<f64>,
    pub response_seconds: f64,
}

impl Attempt {
    /// The status of a try whose end the client did not wait for.
    pub const ABANDONED: u16 = 1;
}

#[derive(Default)]
pub struct Outcome {
    pub attempts: SmallVec<[Attempt; 1]>,
    /// Bytes sent to the client, head included.
    pub bytes_sent: u64,
    pub body_bytes_sent: u64,
    /// Bytes of the request: head and body as received.
    pub request_length: u64,
    pub finished: Option<Instant>,
    /// Target that was sent upstream.
    pub(crate) upstream_target: Vec<u8>,
    pub upstream_host: Vec<u8>,
    /// The node of the last attempt.
    pub peer: Option<Peer>,
}
