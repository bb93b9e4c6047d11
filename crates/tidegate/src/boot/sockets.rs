//! All listening sockets of the process: those of a predecessor, new ones, and both for a successor.
//!
//! Everything is bound before anything is served, so that a port that cannot be had is known in time.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use tidegate_admin::listener::Phase;
use tidegate_proxy::{Listeners, Workers, port_owner, settings::Listen};
use tokio::{net::TcpListener, runtime::Runtime, sync::watch, task::JoinHandle};

/// A busy machine may need that long; more is not waited for.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(1);

/// What is under way on connections to the APIs when a successor serves is waited for that long.
const LAST_REQUESTS: Duration = Duration::from_secs(4);

pub(crate) struct Sockets {
    inherited: Mutex<Vec<StdListener>>,
    /// Duplicates of those of the APIs; the workers keep theirs.
    kept: Mutex<Vec<StdListener>>,
    phase: watch::Sender<Phase>,
    /// When a successor took over.
    left: Mutex<Option<Instant>>,
    /// The tasks that accept.
    tasks: Mutex<Vec<JoinHandle<()>>>,
    /// Of a trial, which binds and lets go.
    trial: Option<Held>,
}

/// What the running gateway of the same prefix listens on.
struct Held {
    addresses: Vec<SocketAddr>,
    /// Of UDP.
    datagrams: Vec<SocketAddr>,
    /// Those of them that are wanted again.
    wanted: Mutex<Vec<SocketAddr>>,
}

impl Held {
    /// A successor would be given the sockets of these.
    fn has(&self, address: SocketAddr) -> bool {
        self.has_of(&self.addresses, address)
    }

    fn has_listener(&self, listen: &Listen) -> bool {
        self.has_of(if listen.is_udp() { &self.datagrams } else { &self.addresses }, listen.address)
    }

    fn has_of(&self, all: &[SocketAddr], address: SocketAddr) -> bool {
        let held = all.contains(&address);
        if held {
            lock(&self.wanted).push(address);
        }
        held
    }
}

impl Sockets {
    pub(crate) fn new(inherited: Vec<StdListener>) -> Sockets {
        let phase = watch::channel(Phase::Waiting).0;
        let (inherited, kept, tasks) = (Mutex::new(inherited), Mutex::default(), Mutex::default());
        Sockets { inherited, kept, phase, left: Mutex::default(), tasks, trial: None }
    }

    /// For a trial beside the running gateway of the same prefix.
    pub(crate) fn trial(running: Option<i32>) -> Sockets {
        let addresses = running.map(port_owner::addresses_of).unwrap_or_default();
        let datagrams = running.map(port_owner::datagram_addresses_of).unwrap_or_default();
        let trial = Some(Held { addresses, datagrams, wanted: Mutex::default() });
        Sockets { trial, ..Sockets::new(Vec::new()) }
    }

    /// Of a trial: the wanted addresses that the running gateway has.
    pub(crate) fn own(&self) -> Vec<SocketAddr> {
        self.trial.as_ref().map(|held| lock(&held.wanted).clone()).unwrap_or_default()
    }

    /// To be called before [`Sockets::bind`]: the data plane takes all sockets of its addresses.
    pub(crate) fn open_data_plane(&self, settings: &tidegate_proxy::Settings) -> io::Result<Listeners> {
        match &self.trial {
            Some(held) => tidegate_proxy::listeners::try_out(settings, &|listen| held.has_listener(listen)),
            None => tidegate_proxy::listeners::open(settings, &mut lock(&self.inherited)),
        }
    }

    /// The socket of an API. Within the control runtime. `None`: it could be had, and nothing is to be served.
    pub(crate) fn bind(&self, address: SocketAddr) -> io::Result<Option<TcpListener>> {
        if let Some(held) = &self.trial {
            return match held.has(address) {
                true => Ok(None),
                false => tidegate_proxy::listeners::refuse_shared(address).map(|()| None),
            };
        }
        let mut inherited = lock(&self.inherited);
        let of_address = |socket: &StdListener| tidegate_proxy::listeners::listens_at(socket, address);
        let socket = match inherited.iter().position(of_address) {
            Some(index) => inherited.swap_remove(index),
            None => StdListener::bind(address)
                .map_err(|error| tidegate_proxy::listeners::cannot_listen(address, error))?,
        };
        socket.set_nonblocking(true)?;
        lock(&self.kept).push(socket.try_clone()?);
        TcpListener::from_std(socket).map(Some)
    }

    /// What to serve the sockets of [`Sockets::bind`] by.
    pub(crate) fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub(crate) fn serve(&self) {
        self.phase.send_replace(Phase::Serving);
    }

    /// Runs what accepts from one of the sockets, by [`Sockets::phase`].
    pub(crate) fn spawn(&self, runtime: &Runtime, accepting: impl Future<Output = ()> + Send + 'static) {
        lock(&self.tasks).push(runtime.spawn(accepting));
    }

    /// Another process serves the APIs now. Returns when no task accepts here any more.
    pub(crate) fn close(&self) {
        lock(&self.kept).clear();
        self.phase.send_replace(Phase::Closing);
        let now = Instant::now();
        *lock(&self.left) = Some(now);
        let deadline = now + ACCEPT_PATIENCE;
        while lock(&self.tasks).iter().any(|task| !task.is_finished()) && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Whether no client waits for an answer of the APIs any more, after [`Sockets::close`]. Each connection has a
    /// receiver of the phase.
    pub(crate) fn is_quiet(&self) -> bool {
        let left = *lock(&self.left);
        left.is_none_or(|left| self.phase.receiver_count() == 0 || left.elapsed() > LAST_REQUESTS)
    }

    /// Closes inherited sockets that were not used; returns their addresses.
    pub(crate) fn leave_rest(&self) -> Vec<SocketAddr> {
        let rest = std::mem::take(&mut *lock(&self.inherited));
        rest.iter().filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// All of them, for a successor.
    pub(crate) fn all(&self, workers: &Workers) -> io::Result<Vec<StdListener>> {
        let mut all = workers.sockets()?;
        for socket in lock(&self.kept).iter() {
            all.push(socket.try_clone()?);
        }
        Ok(all)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
