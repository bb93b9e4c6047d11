//! The open sessions of all workers, for the operator: listed, drained and closed by `tidegate connections`.

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    sync::{
        Arc, LazyLock, OnceLock,
        atomic::{AtomicU8, Ordering::Relaxed},
    },
    task::{Context, Waker},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tidegate_plugin_api::{
    Session,
    session::{StreamOwner, Transport},
    upstream::Peer,
};

use crate::runtime::Runtime;

/// By the number of the connection.
static OPEN: LazyLock<Mutex<BTreeMap<u64, Arc<Entry>>>> = LazyLock::new(Mutex::default);

struct Entry {
    /// The number of the connection.
    id: u64,
    transport: Transport,
    client: SocketAddr,
    local: SocketAddr,
    owner: Option<Arc<StreamOwner>>,
    peer: Option<Peer>,
    since: Instant,
    /// What the operator wants of the session, and the task to wake.
    wanted: AtomicU8,
    waker: OnceLock<Waker>,
}

const DRAIN: u8 = 1;
const CLOSE: u8 = 2;

/// A session that is drained ends after so much silence.
pub(crate) const DRAINED_IDLE_MS: u64 = 1000;

/// Lists a session until it is dropped.
pub(crate) struct Listed {
    worker: &'static Runtime,
    entry: Arc<Entry>,
}

impl Listed {
    pub(crate) fn new(worker: &'static Runtime, session: &Session) -> Listed {
        worker.sessions.set(worker.sessions.get() + 1);
        let id = session.facts.id;
        let entry = Arc::new(Entry {
            id,
            transport: session.transport,
            client: (session.remote_addr, session.remote_port).into(),
            local: session.facts.local,
            owner: session.owner.clone(),
            peer: session.peer.clone(),
            since: session.started,
            wanted: AtomicU8::new(0),
            waker: OnceLock::new(),
        });
        OPEN.lock().insert(id, entry.clone());
        Listed { worker, entry }
    }

    /// Remembers which task to wake: that of the first call.
    pub(crate) fn attach(&self, context: &Context<'_>) {
        self.entry.waker.get_or_init(|| context.waker().clone());
    }

    /// It ends once it is silent.
    pub(crate) fn is_draining(&self) -> bool {
        self.entry.wanted.load(Relaxed) == DRAIN
    }

    /// It ends at once: the operator wants it, or the time of the worker's drain is up.
    pub(crate) fn is_closing(&self) -> bool {
        self.entry.wanted.load(Relaxed) == CLOSE || self.worker.cutting.get()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        OPEN.lock().remove(&self.entry.id);
        self.worker.sessions.set(self.worker.sessions.get() - 1);
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
            && self
                .route
                .as_ref()
                .is_none_or(|wanted| entry.owner.as_ref().is_some_and(|owner| **wanted == *owner.id))
            && self.client.is_none_or(|wanted| wanted.to_canonical() == entry.client.ip())
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
    let shown = selected.map(|(id, entry)| {
        let node = entry.peer.as_ref().and_then(Peer::node);
        Shown {
            id: *id,
            transport: entry.transport.as_str(),
            client: entry.client,
            local: entry.local,
            route: entry.owner.as_ref().map(|owner| owner.id.clone()).unwrap_or_default(),
            node: node.map(ToString::to_string).unwrap_or_default().into(),
            open_for: entry.since.elapsed(),
            is_draining: entry.wanted.load(Relaxed) == DRAIN,
        }
    });
    shown.collect()
}

/// Closes sessions at once, or (`gently`) each as soon as it has been silent for a second. Returns how many.
pub fn end(selection: &Selection, gently: bool) -> usize {
    let open = OPEN.lock();
    let selected = open.iter().filter(|(id, entry)| selection.has(**id, entry));
    let ordered = selected.map(|(_, entry)| {
        entry.wanted.store(if gently { DRAIN } else { CLOSE }, Relaxed);
        if let Some(waker) = entry.waker.get() {
            waker.wake_by_ref();
        }
    });
    ordered.count()
}
