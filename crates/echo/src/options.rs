//! What a server is asked for when it starts.

use std::{sync::Arc, time::Duration};

/// What requests get unless they ask for something else.
#[derive(Clone, Debug)]
pub struct Options {
    /// Waited before each answer.
    pub delay: Duration,
    /// Of each answer.
    pub status: u16,
    /// Bytes of each body; `None`: the request is the body.
    pub size: Option<u64>,
    /// How many events a stream of them has.
    pub events: u32,
    /// Between two events.
    pub event_interval: Duration,
    /// Of gRPC calls.
    pub grpc_status: u8,
    /// TLS on the port; `None`: none.
    pub tls: Option<Arc<rustls::ServerConfig>>,
}
