//! Requests that the gateway's own APIs answer on a data port (the layout of APISIX 2.x).

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
};

pub struct InternalRequest {
    pub method: String,
    /// Path and query as received.
    pub target: String,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    pub peer: IpAddr,
}

pub struct InternalResponse {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

/// Runs on the control runtime, never on a worker.
pub trait Internal: Send + Sync {
    /// Whether a path is one of its own; asked for every request of a gateway that has such an API on its data port.
    fn owns(&self, path: &[u8]) -> bool;
    /// Whether it is served at the address that a connection came to.
    fn is_at(&self, local: SocketAddr) -> bool;
    /// Larger bodies are refused before they are read.
    fn max_body_bytes(&self) -> usize;
    fn answer(&self, request: InternalRequest) -> Pin<Box<dyn Future<Output = InternalResponse> + Send>>;
}
