//! All listening sockets of the process: those of a predecessor, new ones, and both for a successor.
//!
//! Everything is bound before anything is served, so that a port that cannot be had is known in time.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::{Mutex, MutexGuard, PoisonError},
};

use admin::listener::Phase;
use proxy::{Listeners, Workers};
use tokio::{net::TcpListener, sync::watch};

pub struct Sockets {
    inherited: Mutex<Vec<StdListener>>,
    /// Those of the APIs once more; the workers keep theirs.
    kept: Mutex<Vec<StdListener>>,
    phase: watch::Sender<Phase>,
}

impl Sockets {
    pub fn new(inherited: Vec<StdListener>) -> Sockets {
        let phase = watch::channel(Phase::Waiting).0;
        Sockets { inherited: Mutex::new(inherited), kept: Mutex::default(), phase }
    }

    /// To be called before [`Sockets::bind`]: the data plane takes all sockets of its addresses.
    pub fn open_data_plane(&self, settings: &proxy::Settings) -> io::Result<Listeners> {
        proxy::listeners::open(settings, &mut lock(&self.inherited))
    }

    /// The socket of an API. Within the control runtime.
    pub fn bind(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let mut inherited = lock(&self.inherited);
        let of_address = |socket: &StdListener| socket.local_addr().is_ok_and(|local| local == address);
        let socket = match inherited.iter().position(of_address) {
            Some(index) => inherited.swap_remove(index),
            None => StdListener::bind(address)?,
        };
        socket.set_nonblocking(true)?;
        lock(&self.kept).push(socket.try_clone()?);
        TcpListener::from_std(socket)
    }

    /// What to serve the sockets of [`Sockets::bind`] by.
    pub fn phase(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    pub fn serve(&self) {
        self.phase.send_replace(Phase::Serving);
    }

    /// Somebody else serves the APIs now.
    pub fn close(&self) {
        lock(&self.kept).clear();
        self.phase.send_replace(Phase::Closing);
    }

    /// Closes what was inherited and nobody wanted; their addresses.
    pub fn leave_rest(&self) -> Vec<SocketAddr> {
        let rest = std::mem::take(&mut *lock(&self.inherited));
        rest.iter().filter_map(|socket| socket.local_addr().ok()).collect()
    }

    /// All of them, for a successor.
    pub fn all(&self, workers: &Workers) -> io::Result<Vec<StdListener>> {
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
