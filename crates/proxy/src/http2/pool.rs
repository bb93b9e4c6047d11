//! HTTP/2 connections to nodes, per worker, shared by the requests of that worker; those that begin with a PROXY header
//! by the requests of one client connection only.
//!
//! A connection is used while it has room for a stream and served fewer requests than the upstream's
//! `keepalive_pool.requests`. While one is being opened, requests that find none wait for it instead of opening theirs.

mod establish;
mod silence;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    future::{Future, poll_fn},
    net::SocketAddr,
    rc::Rc,
    task::Poll,
};

use bytes::Bytes;
use h2::client::SendRequest;
use plugin::snapshot::KeepalivePool;
use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use crate::{pool::ages::Ages, worker::Worker};

pub use establish::establish;

/// Streams of one connection, whatever the node allows.
const MOST_STREAMS: usize = 128;
/// Connections to one node; past that requests wait for a stream.
const MOST_CONNECTIONS: usize = 64;
const FULL_WINDOW_BYTES: u32 = 64 * 1024;
const SMALL_WINDOW_BYTES: u32 = 8 * 1024;

/// The connections that a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The pool number of a [`plugin::snapshot::Node`].
    pub pool: u32,
    /// The client connection that they belong to; `None`: anybody's.
    pub client: Option<u64>,
}

/// How much of an answer may be under way before the client has taken any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    Full,
    /// For clients that leave much of other answers untaken.
    Small,
}

impl Window {
    pub fn bytes(self) -> u32 {
        match self {
            Window::Full => FULL_WINDOW_BYTES,
            Window::Small => SMALL_WINDOW_BYTES,
        }
    }
}

/// What a connection has to be like.
pub struct Wanted<'a> {
    pub server_name: &'a [u8],
    pub window: Window,
    /// Not one that has been used before.
    pub fresh: bool,
}

impl Wanted<'_> {
    fn is_met_by(&self, connection: &Shared) -> bool {
        *connection.server_name == *self.server_name && connection.window == self.window
    }
}

#[derive(Default)]
struct State {
    /// Streams at work.
    active: Cell<usize>,
    /// Nothing new may start on it.
    closed: Cell<bool>,
}

/// A connection that requests share.
pub struct Shared {
    place: Place,
    /// A client's own, without a stream: its number in the pool's [`Ages`].
    idle: Cell<Option<u64>>,
    pub address: SocketAddr,
    /// The name of its TLS handshake: a certificate judged for one name is not used for another.
    server_name: Box<[u8]>,
    /// Of each of its streams.
    pub window: Window,
    send: SendRequest<Bytes>,
    uses: Cell<u32>,
    /// What the connection's task knows too.
    state: Rc<State>,
    limits: KeepalivePool,
    idle_until_ms: Cell<u64>,
    worker: &'static Worker,
}

impl Shared {
    fn has_room(&self) -> bool {
        !self.state.closed.get()
            && self.uses.get() < self.limits.requests
            && self.state.active.get() < self.send.current_max_send_streams().min(MOST_STREAMS)
    }

    /// Without keep-alive it serves one request alone.
    fn is_kept(&self) -> bool {
        self.limits.idle_timeout_ms > 0 && self.limits.size > 0
    }

    fn is_offered(&self) -> bool {
        self.is_kept() && !self.state.closed.get()
    }

    fn expired(&self, now_ms: u64) -> bool {
        let retired = self.state.closed.get() || self.uses.get() >= self.limits.requests;
        self.state.active.get() == 0 && (retired || self.idle_until_ms.get() <= now_ms)
    }
}

/// The right to one stream of a connection.
pub struct Lease {
    pub connection: Rc<Shared>,
    /// Requests it had served before.
    pub uses: u32,
}

impl Lease {
    fn new(connection: &Rc<Shared>) -> Lease {
        connection.worker.http2_pool.not_idle(connection);
        let uses = connection.uses.get();
        connection.uses.set(uses + 1);
        connection.state.active.set(connection.state.active.get() + 1);
        Lease { connection: connection.clone(), uses }
    }

    pub fn sender(&self) -> SendRequest<Bytes> {
        self.connection.send.clone()
    }

    /// The node sent GOAWAY, or nothing: later requests go elsewhere.
    pub fn retire(&self) {
        self.connection.state.closed.set(true);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.state.active.set(connection.state.active.get().saturating_sub(1));
        let now_ms = connection.worker.deadlines.now_ms();
        connection.idle_until_ms.set(now_ms.saturating_add(connection.limits.idle_timeout_ms));
        if let Some(client) = connection.place.client
            && connection.is_offered()
            && connection.state.active.get() == 0
        {
            connection.worker.http2_pool.became_idle(connection, client);
        }
    }
}

#[derive(Default)]
struct Node {
    connections: Vec<Rc<Shared>>,
    opening: bool,
    changed: Rc<Notify>,
}

/// By the pool number of a [`plugin::snapshot::Node`].
#[derive(Default)]
pub struct Http2Pool {
    nodes: RefCell<FxHashMap<u32, Node>>,
    /// By client connection and pool number; see [`crate::pool::own`].
    own: RefCell<BTreeMap<(u64, u32), Node>>,
    ages: RefCell<Ages>,
}

/// What a request that needs a stream does next.
pub enum Next {
    Use(Lease),
    /// Open a connection. The others wait until this is dropped.
    Open(Opening),
    Wait(Rc<Notify>),
}

/// Held by the request that opens a connection.
pub struct Opening {
    pool: &'static Http2Pool,
    place: Place,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.pool.with_node(self.place, |node| {
            node.opening = false;
            node.changed.notify_waiters();
        });
    }
}

impl Http2Pool {
    /// Made where there is none.
    fn with_node<R>(&self, place: Place, act: impl FnOnce(&mut Node) -> R) -> R {
        if let Some(client) = place.client {
            return act(self.own.borrow_mut().entry((client, place.pool)).or_default());
        }
        act(self.nodes.borrow_mut().entry(place.pool).or_default())
    }

    pub fn next(&'static self, place: Place, wanted: &Wanted<'_>) -> Next {
        let ready = self.with_node(place, |node| node.next(wanted));
        // Not before it is needed: dropping one says that a connection is there.
        ready.unwrap_or_else(|| Next::Open(Opening { pool: self, place }))
    }

    /// Closes what is too old. Connections with streams on them stay until those have ended.
    pub fn sweep(&self, now_ms: u64) {
        self.nodes.borrow_mut().retain(|_, node| {
            node.connections.retain(|connection| !connection.expired(now_ms));
            // Who waits for a stream holds the other end.
            node.opening || !node.connections.is_empty() || Rc::strong_count(&node.changed) > 1
        });
        self.own.borrow_mut().retain(|_, node| {
            node.retain(self, |connection| !connection.expired(now_ms));
            node.opening || !node.connections.is_empty()
        });
    }

    /// The client has left: none of its requests is at work.
    pub fn forget(&self, client: u64) {
        let mut own = self.own.borrow_mut();
        let places: Vec<_> = own.range((client, 0)..=(client, u32::MAX)).map(|(place, _)| *place).collect();
        for mut node in places.iter().filter_map(|place| own.remove(place)) {
            node.retain(self, |_| false);
        }
    }

    /// A client's connection carries no stream any more; the one that has carried none for longest may have to go.
    fn became_idle(&self, connection: &Shared, client: u64) {
        let Place { pool, .. } = connection.place;
        let (mut ages, mut own) = (self.ages.borrow_mut(), self.own.borrow_mut());
        connection.idle.set(Some(ages.enter(pool, client)));
        while let Some((number, client)) = ages.surplus(pool, connection.limits.size) {
            if let Some(node) = own.get_mut(&(client, pool)) {
                node.connections.retain(|connection| connection.idle.get() != Some(number));
            }
        }
    }

    fn not_idle(&self, connection: &Shared) {
        if let (Some(number), Some(client)) = (connection.idle.take(), connection.place.client) {
            self.ages.borrow_mut().leave(connection.place.pool, number, client);
        }
    }
}

impl Node {
    /// `None`: a connection has to be opened; that is noted.
    fn next(&mut self, wanted: &Wanted<'_>) -> Option<Next> {
        let usable = |connection: &&Rc<Shared>| {
            connection.has_room()
                && wanted.is_met_by(connection)
                && !(wanted.fresh && connection.uses.get() > 0)
        };
        if let Some(connection) = self.connections.iter().find(usable) {
            return Some(Next::Use(Lease::new(connection)));
        }
        if self.opening {
            return Some(Next::Wait(self.changed.clone()));
        }
        if self.connections.len() >= MOST_CONNECTIONS {
            let least = self.connections.iter().filter(|connection| !connection.state.closed.get());
            if let Some(connection) = least.min_by_key(|connection| connection.state.active.get())
                && wanted.is_met_by(connection)
            {
                return Some(Next::Use(Lease::new(connection)));
            }
        }
        self.opening = true;
        None
    }

    fn retain(&mut self, pool: &Http2Pool, keep: impl Fn(&Shared) -> bool) {
        self.connections.retain(|connection| {
            let kept = keep(connection);
            if !kept {
                pool.not_idle(connection);
            }
            kept
        });
    }
}

/// Waits until the pool has changed or `expired` says that time is up.
pub async fn changed(notify: &Notify, expired: impl Fn() -> bool) -> bool {
    let mut changed = std::pin::pin!(notify.notified());
    poll_fn(|context| match changed.as_mut().poll(context) {
        Poll::Ready(()) => Poll::Ready(true),
        Poll::Pending if expired() => Poll::Ready(false),
        Poll::Pending => Poll::Pending,
    })
    .await
}
