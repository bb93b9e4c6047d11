//! Each worker's HTTP/2 connections to nodes, shared by its requests. Connections that begin with a PROXY header are shared
//! only by the requests of one client connection.
//!
//! A connection takes requests as long as it has a stream to spare and has served fewer requests than the upstream's
//! `keepalive_pool.requests`. While one is being opened, requests without a connection wait for it instead of opening their
//! own. [`gate`] limits the number of connections and queues requests.

mod establish;
mod gate;
mod silence;
pub(crate) mod window;

use std::{
    cell::{Cell, RefCell},
    collections::BTreeMap,
    net::SocketAddr,
    rc::Rc,
};

use bytes::Bytes;
use h2::client::SendRequest;
use rustc_hash::FxHashMap;
use tidegate_plugin_api::upstream::KeepalivePool;

use self::{
    gate::{Existing, Gate, Turn},
    window::MOST_STREAMS,
};
use crate::{pool::ages::Ages, runtime::Runtime};

pub(crate) use self::establish::establish;
pub(crate) use self::{gate::Waiting, window::Window};

/// The connections that a request may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PoolKey {
    /// The pool number of a [`tidegate_plugin_api::upstream::Node`].
    pub pool: u32,
    /// The client connection that they belong to; `None`: shared by all clients.
    pub client: Option<u64>,
}

/// What a request requires of a connection.
pub(crate) struct Wanted<'a> {
    pub server_name: &'a [u8],
    pub window: Window,
    /// Set after a connection turned out to be gone: only one that was opened, or received something, later
    /// will do.
    pub after: Option<Moment>,
}

/// A point in time, counted in connections opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    /// The connections opened before it.
    opened: u64,
    now_ms: u64,
}

impl Wanted<'_> {
    fn is_met_by(&self, connection: &Shared) -> bool {
        self.suits(connection) && connection.window == self.window && self.is_outlived_by(connection)
    }

    /// A connection with small windows suits every client.
    fn suits(&self, connection: &Shared) -> bool {
        *connection.server_name == *self.server_name
            && (connection.window == self.window || connection.window == Window::Small)
    }

    fn is_outlived_by(&self, connection: &Shared) -> bool {
        self.after.is_none_or(|moment| {
            connection.number >= moment.opened || connection.state.heard_ms.get() > moment.now_ms
        })
    }
}

#[derive(Default)]
struct State {
    /// Active streams.
    active: Cell<usize>,
    /// A request was added since the connection's task last looked.
    added: Cell<bool>,
    /// Takes no new streams.
    closed: Cell<bool>,
    /// Given up because the node was silent.
    silent: Cell<bool>,
    /// A request timed out while the node was silent. Cleared as soon as anything arrives.
    doubted: Cell<bool>,
    /// It replaces a silent connection, and is not shared until something arrives on it.
    probing: Cell<bool>,
    /// When something last arrived.
    heard_ms: Cell<u64>,
}

/// A connection shared by requests.
pub(crate) struct Shared {
    place: PoolKey,
    gate: Rc<Gate>,
    /// The number of connections opened before it.
    number: u64,
    /// For an idle connection that belongs to one client: its number in the pool's [`Ages`].
    idle: Cell<Option<u64>>,
    pub address: SocketAddr,
    /// The server name of its TLS handshake. A certificate verified for one name does not vouch for another.
    server_name: Box<[u8]>,
    /// The window of each stream.
    pub window: Window,
    send: SendRequest<Bytes>,
    uses: Cell<u32>,
    /// Shared with the connection's task.
    state: Rc<State>,
    limits: KeepalivePool,
    idle_until_ms: Cell<u64>,
    runtime: &'static Runtime,
    pool: &'static Http2Pool,
}

impl Shared {
    fn has_stream(&self) -> bool {
        !self.state.closed.get()
            && !self.state.probing.get()
            && self.state.active.get() < self.send.current_max_send_streams().min(MOST_STREAMS)
    }

    fn is_good(&self) -> bool {
        self.has_stream() && !self.state.doubted.get() && self.uses.get() < self.limits.requests
    }

    fn is_idle(&self) -> bool {
        self.state.active.get() == 0 && !self.state.probing.get()
    }

    /// Without keep-alive, a connection serves a single request.
    fn is_kept(&self) -> bool {
        self.limits.idle_timeout_ms > 0 && self.limits.size > 0
    }

    fn is_offered(&self) -> bool {
        self.is_kept() && !self.state.closed.get()
    }

    fn expired(&self, now_ms: u64) -> bool {
        let state = &self.state;
        let retired = state.closed.get() || state.doubted.get() || self.uses.get() >= self.limits.requests;
        self.is_idle() && (retired || self.idle_until_ms.get() <= now_ms)
    }
}

/// The right to one stream of a connection.
pub(crate) struct Lease {
    pub connection: Rc<Shared>,
    /// The requests that the connection had served before.
    pub uses: u32,
    since_ms: u64,
}

impl Lease {
    fn new(connection: &Rc<Shared>) -> Lease {
        connection.pool.not_idle(connection);
        let uses = connection.uses.get();
        connection.uses.set(uses + 1);
        connection.state.active.set(connection.state.active.get() + 1);
        let since_ms = connection.runtime.deadlines.now_ms();
        Lease { connection: connection.clone(), uses, since_ms }
    }

    pub(crate) fn sender(&self) -> SendRequest<Bytes> {
        self.connection.send.clone()
    }

    /// A request has been handed to the connection, whose task sends it soon.
    pub(crate) fn added(&self) {
        self.connection.state.added.set(true);
    }

    /// The node sent GOAWAY, or the connection is broken: later requests go elsewhere.
    pub(crate) fn retire(&self) {
        self.connection.state.closed.set(true);
    }

    /// The request timed out. If the node was silent altogether, later requests use other connections until something arrives.
    pub(crate) fn doubt(&self) {
        let state = &self.connection.state;
        if state.heard_ms.get() <= self.since_ms {
            state.doubted.set(true);
        }
    }

    /// The connection was given up because the node was silent. It would hardly answer on another one.
    pub(crate) fn was_silent(&self) -> bool {
        self.connection.state.silent.get()
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let connection = &self.connection;
        connection.state.active.set(connection.state.active.get().saturating_sub(1));
        let now_ms = connection.runtime.deadlines.now_ms();
        connection.idle_until_ms.set(now_ms.saturating_add(connection.limits.idle_timeout_ms));
        if let Some(client) = connection.place.client
            && connection.is_offered()
            && connection.state.active.get() == 0
        {
            connection.pool.became_idle(connection, client);
        }
        // While a connection is being opened, its opener wakes the others.
        if connection.is_offered() && !connection.gate.is_opening() {
            connection.gate.wake(1);
        }
    }
}

#[derive(Default)]
struct Node {
    connections: Vec<Rc<Shared>>,
    gate: Rc<Gate>,
}

/// By the pool number of a [`tidegate_plugin_api::upstream::Node`].
#[derive(Default)]
pub(crate) struct Http2Pool {
    nodes: RefCell<FxHashMap<u32, Node>>,
    /// By client connection and pool number; see [`crate::pool::own`].
    own: RefCell<BTreeMap<(u64, u32), Node>>,
    ages: RefCell<Ages>,
    opened: Cell<u64>,
}

/// What a request without a stream does next.
pub(crate) enum Next {
    Use(Lease),
    /// Open a connection. The others wait until this is dropped.
    Open(Opening),
    Wait(Waiting),
}

/// Held by the request that opens a connection.
pub(crate) struct Opening {
    pool: &'static Http2Pool,
    place: PoolKey,
    window: Window,
    existing: Existing,
    turn: Turn,
}

impl Http2Pool {
    /// Created on first use.
    fn with_node<R>(&self, place: PoolKey, act: impl FnOnce(&mut Node) -> R) -> R {
        if let Some(client) = place.client {
            return act(self.own.borrow_mut().entry((client, place.pool)).or_default());
        }
        act(self.nodes.borrow_mut().entry(place.pool).or_default())
    }

    pub(crate) fn next(&'static self, place: PoolKey, wanted: &Wanted<'_>) -> Next {
        self.with_node(place, |node| node.next(wanted, self, place))
    }

    /// A point in time before everything that is opened from now on.
    pub(crate) fn moment(&self, runtime: &Runtime) -> Moment {
        Moment { opened: self.opened.get(), now_ms: runtime.deadlines.now_ms() }
    }

    fn next_number(&self) -> u64 {
        self.opened.replace(self.opened.get() + 1)
    }

    /// Closes connections that are too old, once their streams have ended.
    pub(crate) fn sweep(&self, now_ms: u64) {
        self.nodes.borrow_mut().retain(|_, node| {
            node.connections.retain(|connection| !connection.expired(now_ms));
            node.is_needed()
        });
        self.own.borrow_mut().retain(|_, node| {
            node.retain(self, |connection| !connection.expired(now_ms));
            node.is_needed()
        });
    }

    /// The client has left, and has no active requests.
    pub(crate) fn forget(&self, client: u64) {
        let mut own = self.own.borrow_mut();
        let places: Vec<_> = own.range((client, 0)..=(client, u32::MAX)).map(|(place, _)| *place).collect();
        for mut node in places.iter().filter_map(|place| own.remove(place)) {
            node.retain(self, |_| false);
        }
    }

    /// A client's connection has become idle. The one that has been idle longest may have to go.
    fn became_idle(&self, connection: &Shared, client: u64) {
        let PoolKey { pool, .. } = connection.place;
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
    /// Requests that open a connection, use one or wait for a stream hold a reference to the gate.
    fn is_needed(&self) -> bool {
        !self.connections.is_empty() || Rc::strong_count(&self.gate) > 1
    }

    fn next(&mut self, wanted: &Wanted<'_>, pool: &'static Http2Pool, place: PoolKey) -> Next {
        let no_full = self.gate.has_no_full();
        let good = |connection: &&Rc<Shared>| connection.is_good() && wanted.is_outlived_by(connection);
        let small = |connection: &&Rc<Shared>| no_full && good(connection) && wanted.suits(connection);
        let best =
            self.connections.iter().find(|connection| good(connection) && wanted.is_met_by(connection));
        if let Some(connection) = best.or_else(|| self.connections.iter().find(small)) {
            return Next::Use(Lease::new(connection));
        }
        if let Some((existing, turn, window)) = self.gate.open(wanted.window) {
            return Next::Open(Opening { pool, place, window, existing, turn });
        }
        if self.gate.is_opening() || self.evict(pool) {
            return Next::Wait(Waiting::new(&self.gate));
        }
        // No more connections may be opened: one that has served enough, or that may be gone, is taken too.
        let last =
            self.connections.iter().find(|connection| connection.has_stream() && wanted.suits(connection));
        match last {
            Some(connection) => Next::Use(Lease::new(connection)),
            None => Next::Wait(Waiting::new(&self.gate)),
        }
    }

    /// Drops an idle connection that no waiting request can use. Its end wakes one of them.
    fn evict(&mut self, pool: &Http2Pool) -> bool {
        if !self.gate.may_evict() {
            return false;
        }
        match self.connections.iter().position(|connection| connection.is_idle()) {
            Some(place) => {
                pool.not_idle(&self.connections.swap_remove(place));
                true
            }
            None => {
                self.gate.evicted_none();
                false
            }
        }
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
