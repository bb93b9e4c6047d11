//! The open sessions of all workers, for the operator: listed, drained and closed by `tidegate connections`.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, LazyLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tidegate_plugin_api::{Session, session::Transport, upstream::Peer};
use tokio::sync::Notify;

/// By the number of the connection.
static OPEN: LazyLock<Mutex<BTreeMap<u64, Entry>>> = LazyLock::new(Mutex::default);

struct Entry {
    transport: Transport,
    client: SocketAddr,
    local: SocketAddr,
    route: Arc<str>,
    node: Box<str>,
    since: Instant,
    order: Arc<Order>,
}

/// What the operator wants of a session.
#[derive(Debug, Default)]
pub(crate) struct Order {
    wanted: AtomicU8,
    pub(crate) given: Notify,
}

const DRAIN: u8 = 1;
const CLOSE: u8 = 2;

impl Order {
    /// It ends once it is silent.
    pub(crate) fn is_drain(&self) -> bool {
        self.wanted.load(Relaxed) == DRAIN
    }

    pub(crate) fn is_close(&self) -> bool {
        self.wanted.load(Relaxed) == CLOSE
    }
}

/// A session that is drained ends after so much silence.
pub(crate) const DRAINED_IDLE_MS: u64 = 1000;

/// Lists a session until it is dropped.
pub(crate) struct Listed {
    id: u64,
    pub(crate) order: Arc<Order>,
}

impl Listed {
    pub(crate) fn new(session: &Session) -> Listed {
        let order: Arc<Order> = Arc::default();
        let node = session.peer.as_ref().and_then(Peer::node);
        let entry = Entry {
            transport: session.transport,
            client: (session.remote_addr, session.remote_port).into(),
            local: session.facts.local,
            route: session.owner.as_ref().map(|owner| owner.id.clone()).unwrap_or_default(),
            node: node.map(ToString::to_string).unwrap_or_default().into(),
            since: session.started,
            order: order.clone(),
        };
        OPEN.lock().insert(session.facts.id, entry);
        Listed { id: session.facts.id, order }
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.id);
    }
}

/// Which sessions are meant; what is not set means all.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The number of one session.
    pub id: Option<u64>,
    /// The id of their stream route.
    pub route: Option<String>,
    /// The address of their client.
    pub client: Option<IpAddr>,
}

impl Selection {
    fn has(&self, id: u64, entry: &Entry) -> bool {
        self.id.is_none_or(|wanted| wanted == id)
            && self.route.as_ref().is_none_or(|wanted| **wanted == *entry.route)
            && self.client.is_none_or(|wanted| wanted == entry.client.ip())
    }
}

/// An open session.
#[derive(Clone, Debug)]
pub struct Shown {
    /// Its number.
    pub id: u64,
    /// `TCP` or `UDP`.
    pub transport: &'static str,
    /// Who it is with.
    pub client: SocketAddr,
    /// The address that the client connected to.
    pub local: SocketAddr,
    /// The id of its stream route.
    pub route: Arc<str>,
    /// The node that it goes to.
    pub node: Box<str>,
    /// How long it has been open.
    pub open_for: Duration,
    /// It ends once it is silent.
    pub is_draining: bool,
}

/// The open sessions of this process, oldest first within each worker.
pub fn list(selection: &Selection) -> Vec<Shown> {
    let open = OPEN.lock();
    let selected = open.iter().filter(|(id, entry)| selection.has(**id, entry));
    let shown = selected.map(|(id, entry)| Shown {
        id: *id,
        transport: entry.transport.as_str(),
        client: entry.client,
        local: entry.local,
        route: entry.route.clone(),
        node: entry.node.clone(),
        open_for: entry.since.elapsed(),
        is_draining: entry.order.is_drain(),
    });
    shown.collect()
}

/// Closes sessions at once, or (`gently`) each as soon as it has been silent for a second. Returns how many.
pub fn end(selection: &Selection, gently: bool) -> usize {
    let open = OPEN.lock();
    let selected = open.iter().filter(|(id, entry)| selection.has(**id, entry));
    let orders = selected.map(|(_, entry)| {
        entry.order.wanted.store(if gently { DRAIN } else { CLOSE }, Relaxed);
        entry.order.given.notify_one();
    });
    orders.count()
}
