//! An upstream as requests use it.

use std::{fmt, net::SocketAddr, sync::Arc};

use tidegate_model::Document;
pub use tidegate_protocol::proxy_protocol::Version as ProxyProtocol;

use crate::{Template, Variable};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    pub connect_ms: u64,
    pub send_ms: u64,
    pub read_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { connect_ms: 60_000, send_ms: 60_000, read_ms: 60_000 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    Http,
    Https,
    Grpc,
    Grpcs,
}

impl Scheme {
    pub fn is_tls(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Grpcs)
    }

    pub fn is_grpc(self) -> bool {
        matches!(self, Scheme::Grpc | Scheme::Grpcs)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Grpc => "grpc",
            Scheme::Grpcs => "grpcs",
        }
    }

    pub fn default_port(self) -> u16 {
        if self.is_tls() { 443 } else { 80 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassHost {
    Pass,
    Node,
    Rewrite(Box<str>),
}

/// The key of consistent hashing.
#[derive(Clone, Debug)]
pub enum HashKey {
    Variable(Variable),
    Combination(Template),
    Consumer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepalivePool {
    /// Idle connections kept per worker and node.
    pub size: usize,
    pub idle_timeout_ms: u64,
    /// Requests after which a connection is closed.
    pub requests: u32,
}

impl Default for KeepalivePool {
    fn default() -> KeepalivePool {
        KeepalivePool { size: 320, idle_timeout_ms: 60_000, requests: 1000 }
    }
}

/// TLS toward an upstream.
pub struct TlsClient {
    pub config: Arc<rustls::ClientConfig>,
}

/// An upstream ready for use: nodes, balancer and health shared by all workers.
pub struct UpstreamHandle {
    /// `upstreams/1`, or `routes/1` for an inline one: the name health checks show.
    pub name: Arc<str>,
    pub balancer: Arc<tidegate_balancing::Upstream>,
    /// In the balancer's order.
    pub nodes: Vec<Node>,
    pub scheme: Scheme,
    pub pass_host: PassHost,
    pub timeouts: Timeouts,
    /// `None`: one try per further node.
    pub retries: Option<u32>,
    pub retry_timeout_ms: u64,
    pub keepalive: KeepalivePool,
    /// Connections begin with this header. Each then belongs to one client: see `proxy/src/pool/own.rs`.
    pub proxy_protocol: Option<ProxyProtocol>,
    pub hash_key: Option<HashKey>,
    pub tls: Option<TlsClient>,
    pub document: Document,
    pub version: u64,
}

/// One address. A name that resolves to several is several nodes.
pub struct Node {
    /// The name or the address, as configured.
    pub host: Box<str>,
    pub port: u16,
    /// `None`: the name is not resolved.
    pub address: Option<SocketAddr>,
    /// The address without its port, as `$balancer_ip` has it; the name if it is not resolved.
    pub ip: Box<str>,
    /// The `Host` of `pass_host: node`: with the port unless it is the scheme's own.
    pub host_header: Box<str>,
    /// Names the keep-alive pool of this scheme, address, TLS setting and PROXY header within the process.
    pub pool: u32,
}

/// `host:port`, with the address behind a name.
impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)?;
        if self.host == self.ip { Ok(()) } else { write!(f, " ({})", self.ip) }
    }
}

/// The node that the balancer chose for an attempt, and its upstream.
#[derive(Clone)]
pub struct Peer {
    pub upstream: Arc<UpstreamHandle>,
    pub index: u16,
}

impl Peer {
    pub fn node(&self) -> Option<&Node> {
        self.upstream.nodes.get(usize::from(self.index))
    }
}
