//! A connection to a node while a request uses it.

use std::{net::SocketAddr, time::Instant};

use bytes::Bytes;

use crate::{buffer::Buffer, stream::Stream};

/// A connection in use.
pub(crate) struct UpstreamConnection {
    pub stream: Stream,
    pub input: Buffer,
    pub out: Vec<u8>,
    pub sent: usize,
    pub body: SendBody,
    pub uses: u32,
    /// The name of the TLS handshake; empty without TLS.
    pub server_name: Box<[u8]>,
    pub address: SocketAddr,
    pub started: Instant,
    pub connect_seconds: Option<f64>,
    pub response: tidegate_protocol::ResponseHead,
    /// Interim answers that came, and their bytes.
    pub(super) interim: (u32, usize),
}

/// The part of the request body that is still to be sent.
pub(crate) enum SendBody {
    Done,
    /// The rest of a body that was gathered.
    Collected(Bytes),
    /// Pieces come from the client's connection.
    Streaming {
        chunked: bool,
        scratch: Vec<u8>,
        /// Body bytes so far.
        consumed: u64,
    },
}
