//! A compiled configuration: immutable, shared by all workers, replaced as a whole.

use std::{cell::RefCell, fmt, net::SocketAddr, ops::Deref, rc::Rc, sync::Arc};

use aws_lc_rs::digest;
use rustc_hash::FxHashMap;
use serde_json::Value;
use tidegate_model::{Document, Object};
pub use tidegate_protocol::proxy_protocol::Version as ProxyProtocol;
use tidegate_routing::router::Router;

use crate::{Chain, Consumer, ConsumerIndex, Request, Template, Variable, certificates::Certificates};

/// A route's Lua condition. Called on a worker while matching.
pub trait FilterFunction: Send + Sync {
    fn matches(&self, request: &Request) -> bool;
}

pub struct Snapshot {
    pub revision: u64,
    pub router: Router<Variable>,
    /// By the number that the router answers.
    pub routes: RouteTable,
    /// All global rules' plugins, rule after rule.
    pub globals: Chain,
    pub consumers: ConsumerIndex,
    /// The `upstreams` resources by id (traffic-split names them).
    pub upstreams: Arc<FxHashMap<Arc<str>, Arc<UpstreamHandle>>>,
    pub metadata: Arc<FxHashMap<Arc<str>, Arc<Value>>>,
    /// Some route's `vars` depend on request bodies: they must be read before matching.
    pub matches_on_body: bool,
    pub certificates: Arc<Certificates>,
    pub options: RouterOptions,
}

/// Routes by number, in pieces: a snapshot shares with the one before all pieces in which nothing has changed.
#[derive(Clone, Default)]
pub struct RouteTable {
    pieces: Vec<Arc<Vec<Option<Arc<Route>>>>>,
    length: u32,
}

impl RouteTable {
    const PIECE: usize = 256;

    pub fn get(&self, number: usize) -> Option<&Arc<Route>> {
        self.pieces.get(number / Self::PIECE)?.get(number % Self::PIECE)?.as_ref()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Arc<Route>> {
        self.pieces.iter().flat_map(|piece| piece.iter().flatten())
    }

    /// Adds a route under a new number.
    pub fn add(&mut self) -> u32 {
        let number = self.length;
        self.length += 1;
        if self.pieces.len() * Self::PIECE <= number as usize {
            self.pieces.push(Arc::new(vec![None; Self::PIECE]));
        }
        number
    }

    pub fn set(&mut self, number: u32, route: Option<Arc<Route>>) {
        let piece = self.pieces.get_mut(number as usize / Self::PIECE);
        if let Some(slot) =
            piece.and_then(|piece| Arc::make_mut(piece).get_mut(number as usize % Self::PIECE))
        {
            *slot = route;
        }
    }
}

/// `apisix.delete_uri_tail_slash` and its neighbours.
#[derive(Clone, Copy, Debug, Default)]
pub struct RouterOptions {
    pub delete_uri_tail_slash: bool,
    pub normalize_uri_like_servlet: bool,
    pub match_uri_encoded_slash: bool,
    /// `apisix.router.http` is `radixtree_uri_with_parameter`.
    pub uri_parameters: bool,
}

/// What a route, merged with its plugin config and service, does with a request.
#[derive(Clone)]
pub struct Route {
    pub id: Arc<str>,
    pub name: Option<Arc<str>>,
    pub service_id: Option<Arc<str>>,
    pub service_name: Option<Arc<str>>,
    pub chain: Chain,
    pub upstream: RouteUpstream,
    /// A reference of the route names a missing object, or a part of it cannot be built: answer with this status. Its
    /// chain is [`Chain::refusing`] then.
    pub broken: Option<u16>,
    /// The route's own `timeout`, over the upstream's.
    pub timeouts: Option<Timeouts>,
    pub enable_websocket: bool,
    pub filter: Option<Arc<dyn FilterFunction>>,
    /// The merged resource, for plugins that pass it on (opa, forward-auth variables).
    pub document: Document,
    pub service: Option<Document>,
    pub birth: Birth,
    pub service_birth: Option<Birth>,
    /// Never reused within the process: names the route in per-worker caches and metrics.
    pub serial: u64,
    pub version: u64,
}

/// Distinguishes an object from those that had its id before, also after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Birth([u8; 16]);

impl Birth {
    /// `counted`: the store gives each revision once. Elsewhere the time of creation is not known, and one with another
    /// document counts as another object.
    pub fn of(object: &Object, counted: bool) -> Birth {
        let mut digest = digest::Context::new(&digest::SHA256);
        if counted {
            digest.update(&object.created.to_le_bytes());
            // A store that was started afresh counts from the beginning.
            let value = object.value();
            let time = value.get("create_time").map(Value::to_string).unwrap_or_default();
            digest.update(time.as_bytes());
        } else {
            digest.update(object.document.text().as_bytes());
        }
        let (mut birth, digest) = ([0; 16], digest.finish());
        birth.iter_mut().zip(digest.as_ref()).for_each(|(byte, digested)| *byte = *digested);
        Birth(birth)
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[derive(Clone)]
pub enum RouteUpstream {
    /// None configured: a plugin must answer, else 503.
    None,
    /// `upstream_id` names nothing.
    Missing,
    Some(Arc<UpstreamHandle>),
}

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

/// One worker's reference to a snapshot, with the data that worker derives from it. Cloned per request without
/// an atomic.
pub struct WorkerSnapshot {
    snapshot: Arc<Snapshot>,
    /// Route chains merged with a consumer's plugins, by (route, consumer) serial.
    merged: RefCell<FxHashMap<(u64, u64), Rc<Chain>>>,
}

impl WorkerSnapshot {
    pub fn new(snapshot: Arc<Snapshot>) -> WorkerSnapshot {
        WorkerSnapshot { snapshot, merged: RefCell::default() }
    }

    pub fn shared(&self) -> &Arc<Snapshot> {
        &self.snapshot
    }

    /// The route's chain with the consumer's plugins over it: a plugin of the consumer replaces the route's.
    pub fn merged_chain(&self, route: &Route, consumer: &Consumer) -> Rc<Chain> {
        let key = (route.serial, consumer.serial);
        if let Some(chain) = self.merged.borrow().get(&key) {
            return chain.clone();
        }
        let mut instances = consumer.plugins.clone();
        for instance in route.chain.instances() {
            if !consumer.plugins.iter().any(|other| other.def.name == instance.def.name) {
                instances.push(instance.clone());
            }
        }
        let chain = Rc::new(Chain::new(instances));
        let mut merged = self.merged.borrow_mut();
        // Bounded: 100,000 pairs are a few MB; past that they are made again when needed.
        if merged.len() >= 100_000 {
            merged.clear();
        }
        merged.insert(key, chain.clone());
        chain
    }
}

impl Deref for WorkerSnapshot {
    type Target = Snapshot;

    fn deref(&self) -> &Snapshot {
        &self.snapshot
    }
}
