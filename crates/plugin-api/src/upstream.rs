//! An upstream as requests use it.

use std::{fmt, net::SocketAddr, sync::Arc};

use serde_json::Value;
use smallvec::SmallVec;
use tidegate_model::Document;
pub use tidegate_protocol::proxy_protocol::Version as ProxyProtocol;

use crate::{Template, Variable};

/// Each for one wait and not for the whole exchange, as nginx's `proxy_*_timeout`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timeouts {
    /// To connect; a TLS handshake may take as long again.
    pub connect_ms: u64,
    /// Between two writes of the request.
    pub send_ms: u64,
    /// Between two reads of the answer.
    pub read_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Timeouts {
        Timeouts { connect_ms: 60_000, send_ms: 60_000, read_ms: 60_000 }
    }
}

/// What nodes speak to HTTP routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// HTTP/1.1 in clear text.
    Http,
    /// HTTP/1.1 over TLS.
    Https,
    /// gRPC over HTTP/2 in clear text.
    Grpc,
    /// gRPC over HTTP/2 and TLS.
    Grpcs,
}

impl Scheme {
    /// Whether connections begin with a handshake.
    pub fn is_tls(self) -> bool {
        matches!(self, Scheme::Https | Scheme::Grpcs)
    }

    /// Whether nodes get HTTP/2.
    pub fn is_grpc(self) -> bool {
        matches!(self, Scheme::Grpc | Scheme::Grpcs)
    }

    /// `$upstream_scheme`
    pub fn as_str(self) -> &'static str {
        match self {
            Scheme::Http => "http",
            Scheme::Https => "https",
            Scheme::Grpc => "grpc",
            Scheme::Grpcs => "grpcs",
        }
    }

    /// 443 over TLS, else 80.
    pub fn default_port(self) -> u16 {
        if self.is_tls() { 443 } else { 80 }
    }
}

/// What an upstream is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Serves {
    /// Requests.
    Requests,
    /// Sessions of stream routes (`tcp`, `udp`, `tls`): no request is sent to its nodes.
    Sessions,
    /// Messages of clients over WebSockets (`kafka`): its nodes are brokers, see [`crate::messages`].
    Messages,
}

/// Which `Host` the upstream gets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassHost {
    /// The client's.
    Pass,
    /// [`Node::host_header`].
    Node,
    /// `upstream_host`.
    Rewrite(Box<str>),
}

/// The key of consistent hashing.
#[derive(Clone, Debug)]
pub enum HashKey {
    /// Of `hash_on` `vars`, `header` or `cookie`.
    Variable(Variable),
    /// Of `vars_combinations`: several variables in a text.
    Combination(Template),
    /// The consumer's name.
    Consumer,
}

/// `keepalive_pool` of an upstream, or the gateway's defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepalivePool {
    /// Idle connections kept per worker and node.
    pub size: usize,
    /// How long a connection may be idle.
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
    /// Trust, and the client's certificate if the upstream object has one.
    pub config: Arc<rustls::ClientConfig>,
}

/// An upstream ready for use: nodes, balancer and health shared by all workers.
///
/// What each request reads comes first and together: there may be 50,000 upstreams, which are in no cache.
#[repr(C)]
pub struct UpstreamHandle {
    /// Chooses nodes, and knows their health.
    pub balancer: tidegate_balancing::Upstream,
    /// In the balancer's order. Equal ones of several upstreams are one.
    pub nodes: SmallVec<[Arc<Node>; 1]>,
    /// What its nodes speak.
    pub scheme: Scheme,
    /// What goes to its nodes.
    pub serves: Serves,
    /// `document` is that of an object that has it in its field `upstream`.
    pub is_within: bool,
    /// Connections begin with this header. Each then belongs to one client: see `proxy/src/pool/own.rs`.
    pub proxy_protocol: Option<ProxyProtocol>,
    /// `None`: one try per further node.
    pub retries: Option<u32>,
    /// From the first attempt; 0: no limit.
    pub retry_timeout_ms: u64,
    /// For consistent hashing.
    pub hash_key: Option<Box<HashKey>>,
    /// Of `https` and `grpcs`, and of `kafka` with `tls`.
    pub tls: Option<TlsClient>,
    /// Which `Host` they get.
    pub pass_host: PassHost,
    /// For routes without their own.
    pub timeouts: Timeouts,
    /// Of connections to its nodes.
    pub keepalive: KeepalivePool,
    /// `upstreams/1`, or `routes/1` for an inline one: the name health checks show.
    pub name: Arc<str>,
    /// What only sessions of stream routes use of it; `None`: nothing is set.
    pub stream: Option<Box<StreamSide>>,
    /// The object as configured, or the one it is within: the text is the one that the configuration has.
    pub document: Document,
    /// The revision that wrote it.
    pub version: u64,
}

impl UpstreamHandle {
    /// The upstream as configured.
    pub fn value(&self) -> Arc<Value> {
        let value = self.document.value();
        match self.is_within {
            true => Arc::new(value.get("upstream").cloned().unwrap_or_default()),
            false => value,
        }
    }
}

impl AsRef<tidegate_balancing::Upstream> for UpstreamHandle {
    fn as_ref(&self) -> &tidegate_balancing::Upstream {
        &self.balancer
    }
}

/// An upstream, as sessions of stream routes use it.
#[derive(Default)]
pub struct StreamSide {
    /// Of scheme `tls`.
    pub tls: Option<TlsClient>,
    /// `timeout`; `None`: nginx's defaults for streams.
    pub timeouts: Option<Timeouts>,
}

/// Without settings.
static NO_STREAM_SIDE: StreamSide = StreamSide { tls: None, timeouts: None };

impl UpstreamHandle {
    /// What only sessions of stream routes use of it.
    pub fn stream(&self) -> &StreamSide {
        self.stream.as_deref().unwrap_or(&NO_STREAM_SIDE)
    }
}

/// One address. A name that resolves to several is several nodes.
#[derive(Clone, PartialEq)]
pub struct Node {
    /// The name or the address, as configured.
    pub host: Box<str>,
    /// Of the socket.
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
    /// The one chosen from.
    pub upstream: Arc<UpstreamHandle>,
    /// The node's position in it.
    pub index: u16,
}

impl Peer {
    /// `None` only if the position is out of range.
    pub fn node(&self) -> Option<&Node> {
        self.upstream.nodes.get(usize::from(self.index)).map(Arc::as_ref)
    }
}
