//! Requests that the gateway's own APIs answer on a data port (the layout of APISIX 2.x).

use std::{
    future::Future,
    net::{IpAddr, SocketAddr},
    pin::Pin,
};

use bytes::Bytes;

/// A request without its body.
pub struct InternalHead {
    /// As on the request line.
    pub method: String,
    /// Path and query as received.
    pub target: String,
    /// Names and values as received.
    pub headers: Vec<(String, String)>,
    /// Address of the client, as a trusted peer says it.
    pub peer: IpAddr,
    /// Of the connection.
    pub socket: IpAddr,
}

/// What the Admin API answers on a data port.
pub struct InternalResponse {
    /// Final.
    pub status: u16,
    /// Besides those of framing.
    pub headers: Vec<(String, String)>,
    /// May be empty.
    pub body: bytes::Bytes,
}

/// Runs on the control runtime, never on a worker, except for the check whether a path belongs to it.
pub trait Internal: Send + Sync {
    /// Whether a path belongs to this API; asked for every request of a gateway that has such an API on its data
    /// port.
    fn owns(&self, path: &[u8]) -> bool;
    /// Whether it is served at the address that a connection came to.
    fn is_at(&self, local: SocketAddr) -> bool;
    /// Admits a request by its head, or answers it. Its body is not read before.
    fn enter(&self, head: InternalHead) -> Result<Box<dyn InternalCall>, InternalResponse>;
}

/// An admitted request.
pub trait InternalCall: Send {
    /// The most bytes of the body that are read.
    fn body_limit(&self) -> usize;
    /// `body`: all of it, or the size of one that is larger than the limit.
    fn answer(self: Box<Self>, body: Result<Bytes, u64>) -> InternalFuture;
}

/// A response under way; runs on the control runtime.
pub type InternalFuture = Pin<Box<dyn Future<Output = InternalResponse> + Send>>;
