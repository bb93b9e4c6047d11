//! A session of a stream route: a TCP connection, or the datagrams of one client address, from the first byte to the log.

mod values;

use std::{net::IpAddr, rc::Rc, sync::Arc, time::Duration, time::Instant};

use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use tidegate_routing::expr::SearchTime;

use crate::{
    Extensions, UpstreamHandle,
    connection::ConnectionInfo,
    upstream::{HashKey, Peer},
};

/// What carries a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// A connection.
    Tcp,
    /// Datagrams.
    Udp,
}

impl Transport {
    /// `$protocol`
    pub fn as_str(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        }
    }
}

/// The stream route of a session, as logs and metrics name it.
#[derive(Debug, Default)]
pub struct StreamOwner {
    /// `$route_id`
    pub id: Arc<str>,
    /// `$route_name`
    pub name: Option<Arc<str>>,
    /// `$service_id`
    pub service_id: Option<Arc<str>>,
    /// `$service_name`
    pub service_name: Option<Arc<str>>,
}

/// One try to reach a node.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// As `$upstream_addr` has it.
    pub address: Box<str>,
    /// `$upstream_connect_time`; `None`: it failed.
    pub connected_after: Option<Duration>,
}

/// What logs and metrics tell of a session.
#[derive(Debug, Default)]
pub struct SessionLog {
    /// `$status`: 200, or why it ended, in nginx's numbers.
    pub status: u16,
    /// To the client.
    pub bytes_sent: u64,
    /// From the client.
    pub bytes_received: u64,
    /// To the node.
    pub upstream_bytes_sent: u64,
    /// From the node.
    pub upstream_bytes_received: u64,
    /// From the start of the session to the node's first byte.
    pub first_byte_after: Option<Duration>,
    /// In order; the last one is the session's.
    pub attempts: SmallVec<[Attempt; 1]>,
    /// How long it took; `None` before its end.
    pub took: Option<Duration>,
}

/// A session, as plugins and variables see it.
pub struct Session {
    /// Both ends, TLS and the PROXY header.
    pub facts: Rc<ConnectionInfo>,
    /// The client's address: the peer's, or of the PROXY header of a trusted peer.
    pub remote_addr: IpAddr,
    /// The port that goes with [`Session::remote_addr`].
    pub remote_port: u16,
    /// What carries it.
    pub transport: Transport,
    /// Of the handshake that is passed through, in lower case.
    pub server_name: Option<Box<str>>,
    /// `None` before matching, and without a match.
    pub owner: Option<Arc<StreamOwner>>,
    /// The `upstreams` resources by id.
    pub upstreams: Arc<FxHashMap<Arc<str>, Arc<UpstreamHandle>>>,
    /// A plugin's choice, over the route's.
    pub upstream: Option<Arc<UpstreamHandle>>,
    /// The node of the last attempt.
    pub peer: Option<Peer>,
    /// Set by plugins.
    pub variables: SmallVec<[(Box<str>, Vec<u8>); 0]>,
    /// State of plugins, dropped with the session.
    pub extensions: Extensions,
    /// When the client connected.
    pub started: Instant,
    /// The worker's number, from 0.
    pub worker: usize,
    /// What happened so far.
    pub log: SessionLog,
    /// The time that patterns of conditions have taken so far.
    pub search_time: SearchTime,
    undecided: std::cell::Cell<bool>,
}

impl Session {
    /// One that has just begun.
    pub fn new(
        facts: Rc<ConnectionInfo>,
        client: std::net::SocketAddr,
        transport: Transport,
        worker: usize,
        upstreams: Arc<FxHashMap<Arc<str>, Arc<UpstreamHandle>>>,
    ) -> Session {
        Session {
            facts,
            remote_addr: client.ip().to_canonical(),
            remote_port: client.port(),
            transport,
            server_name: None,
            owner: None,
            upstreams,
            upstream: None,
            peer: None,
            variables: SmallVec::new(),
            extensions: Extensions::default(),
            started: Instant::now(),
            worker,
            log: SessionLog::default(),
            search_time: SearchTime::default(),
            undecided: std::cell::Cell::new(false),
        }
    }

    /// The server name of the handshake, terminated here or passed through.
    pub fn handshake_name(&self) -> Option<&str> {
        let terminated = self.facts.tls.as_ref().and_then(|tls| tls.server_name.as_deref());
        terminated.or(self.server_name.as_deref())
    }

    /// A condition could not be judged: the session must be refused.
    pub fn is_undecided(&self) -> bool {
        self.undecided.get()
    }

    /// The key that consistent hashing uses for this session; `None` for other balancers.
    pub fn hash_key(&self, upstream: &UpstreamHandle) -> Option<Vec<u8>> {
        let key = match upstream.hash_key.as_deref()? {
            HashKey::Variable(variable) => self.variable(variable).map(std::borrow::Cow::into_owned),
            HashKey::Combination(template) => {
                let mut text = Vec::new();
                (self.render(template, &mut text) > 0).then_some(text)
            }
            // Sessions have none.
            HashKey::Consumer => None,
        };
        Some(key.filter(|key| !key.is_empty()).unwrap_or_else(|| self.remote_addr.to_string().into_bytes()))
    }
}

/// What a plugin says of a session before it has an upstream.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SessionVerdict {
    /// It may go on.
    Next,
    /// It is closed, with this status in the log.
    Close(u16),
    /// More of what the client sends is needed to tell.
    More,
    /// It may go on after a pause.
    Delay(Duration),
}

/// A built configuration of a plugin of stream routes. Shared by all workers.
#[allow(unused_variables)]
pub trait StreamPlugin: Send + Sync {
    /// Runs once the route is known. `seen`: what the client has sent so far; it is sent on unchanged. It is called again
    /// with more after [`SessionVerdict::More`].
    fn preread(&self, session: &mut Session, seen: &[u8]) -> SessionVerdict {
        SessionVerdict::Next
    }
    /// Runs at the end of the session. It must not block.
    fn log(&self, session: &mut Session) {}
}
