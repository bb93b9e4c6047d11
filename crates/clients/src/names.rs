//! Addresses of services by their names, from the gateway's own resolver (`apisix.dns_resolver`), as those of upstream nodes are. No
//! thread waits for a name server: requests for one name share a lookup, and how many names are looked up at once is bounded.
//!
//! The command line, and a machine without a name server, have the system's resolver, on a bounded number of threads.

use std::{
    collections::HashMap,
    future::Future,
    io,
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    pin::Pin,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    runtime::Handle,
    sync::{Semaphore, watch},
};

/// What the name servers say of a name.
pub struct Answer {
    /// Not empty.
    pub addresses: Vec<IpAddr>,
    /// How long they are used.
    pub valid_for: Duration,
}

/// A lookup that failed.
pub struct Failure {
    /// For the caller.
    pub reason: String,
    /// How long earlier addresses are used from the first such failure on.
    pub keeps_for: Duration,
}

/// A lookup under way, which ends by itself.
pub type Lookup = Pin<Box<dyn Future<Output = Result<Answer, Failure>> + Send>>;

/// Who is asked for addresses.
pub trait NameServers: Send + Sync + 'static {
    /// Runs on the runtime that [`install`] was given.
    fn look_up(&self, host: Arc<str>) -> Lookup;
}

/// At once, of different names.
const MOST_LOOKUPS: usize = 256;
/// Whose addresses are kept.
const MOST_NAMES: usize = 4096;
/// Threads that wait for the system's resolver.
const MOST_THREADS: usize = 16;
/// A TTL of 0 must not become a lookup for each request.
const SHORTEST: Duration = Duration::from_secs(1);
/// Until a name is looked up again after a failure.
const RETRY: Duration = Duration::from_secs(1);
/// So long a request waits for newer addresses before it takes those that have expired.
const PATIENCE: Duration = Duration::from_secs(1);

type Found = Result<Arc<[IpAddr]>, Arc<str>>;

struct Entry {
    /// `None` until the first lookup has ended.
    found: Option<Found>,
    until: Instant,
    failing_since: Option<Instant>,
    pending: Option<watch::Receiver<Option<Found>>>,
}

/// For a lookup, and the addresses that have expired.
type Waits = (watch::Receiver<Option<Found>>, Option<Arc<[IpAddr]>>);

struct Names {
    servers: Box<dyn NameServers>,
    runtime: Handle,
    entries: Mutex<HashMap<Arc<str>, Entry>>,
    most_lookups: usize,
    refused: AtomicU64,
}

static NAMES: OnceLock<Names> = OnceLock::new();

/// From now on names are looked up there. Only the first call of a process has an effect.
pub fn install(servers: impl NameServers, runtime: Handle) {
    let _ = NAMES.set(Names::new(servers, runtime, MOST_LOOKUPS));
}

/// Connections that were refused because too many names were being looked up.
pub fn refused() -> u64 {
    NAMES.get().map_or(0, |names| names.refused.load(Ordering::Relaxed))
}

/// Connects to one of the addresses of a name, or to an address. The caller sets the time limit.
pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    if let Ok(address) = host.parse::<IpAddr>() {
        return TcpStream::connect(SocketAddr::new(address, port)).await;
    }
    TcpStream::connect(addresses(host, port).await?.as_slice()).await
}

/// The addresses of a name; there is at least one.
pub async fn addresses(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
    let with_port = |found: &[IpAddr]| found.iter().map(|address| SocketAddr::new(*address, port)).collect();
    if let Ok(address) = host.parse::<IpAddr>() {
        return Ok(with_port(&[address]));
    }
    let Some(names) = NAMES.get() else { return Ok(with_port(&of_system(host).await?)) };
    let found = names.ask(host).await.map_err(|reason| io::Error::other(format!("{host}: {reason}")))?;
    Ok(with_port(&found))
}

/// What the system's own resolver says. A thread waits for it, one of a few: it cannot be called off.
pub async fn of_system(host: &str) -> io::Result<Vec<IpAddr>> {
    static THREADS: Semaphore = Semaphore::const_new(MOST_THREADS);
    let permit = THREADS.acquire().await.map_err(io::Error::other)?;
    let host = host.to_owned();
    let asked = tokio::task::spawn_blocking(move || {
        let _permit = permit;
        (host.as_str(), 0).to_socket_addrs().map(|found| found.map(|address| address.ip()).collect())
    });
    let found: Vec<IpAddr> = asked.await.map_err(io::Error::other)??;
    if found.is_empty() { Err(io::Error::other("the name has no address")) } else { Ok(found) }
}

impl Names {
    fn new(servers: impl NameServers, runtime: Handle, most_lookups: usize) -> Names {
        let (entries, refused) = (Mutex::default(), AtomicU64::new(0));
        Names { servers: Box::new(servers), runtime, entries, most_lookups, refused }
    }

    async fn ask(&'static self, host: &str) -> Found {
        let (mut pending, old) = match self.begin(host) {
            Ok(found) => return found,
            Err(waits) => waits,
        };
        let ended = async {
            match pending.wait_for(Option::is_some).await {
                Ok(found) => found.clone(),
                Err(_) => None,
            }
        };
        let found = match old {
            None => ended.await,
            Some(old) => tokio::time::timeout(PATIENCE, ended).await.unwrap_or(Some(Ok(old))),
        };
        found.unwrap_or_else(|| Err("its lookup was given up".into()))
    }

    /// What is known, or the lookup to wait for.
    fn begin(&'static self, host: &str) -> Result<Found, Waits> {
        let mut entries = self.entries.lock();
        if let Some(entry) = entries.get(host) {
            if let Some(found) = entry.found.clone().filter(|_| Instant::now() < entry.until) {
                return Ok(found);
            }
            if let Some(pending) = entry.pending.clone() {
                return entry.meanwhile(pending);
            }
        }
        let under_way = entries.values().filter(|entry| entry.pending.is_some()).count();
        if under_way >= self.most_lookups {
            drop(entries);
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Ok(Err(format!(
                "it is not looked up while {under_way} other names are; see whether the name servers (apisix.dns_resolver) answer"
            )
            .into()));
        }
        make_room(&mut entries);
        let host: Arc<str> = host.into();
        let (sender, pending) = watch::channel(None);
        let entry = entries.entry(host.clone()).or_insert_with(|| Entry {
            found: None,
            until: Instant::now(),
            failing_since: None,
            pending: None,
        });
        entry.pending = Some(pending.clone());
        let meanwhile = entry.meanwhile(pending);
        drop(entries);
        self.runtime.spawn(async move {
            let turn = Turn { names: self, host };
            let answer = self.servers.look_up(turn.host.clone()).await;
            let found = self.keep(&turn.host, answer);
            drop(turn);
            sender.send_replace(Some(found));
        });
        meanwhile
    }

    fn keep(&self, host: &str, answer: Result<Answer, Failure>) -> Found {
        let now = Instant::now();
        let mut entries = self.entries.lock();
        let entry = entries.get_mut(host);
        match answer {
            Ok(answer) => {
                let found: Found = Ok(answer.addresses.into());
                let Some(entry) = entry else { return found };
                entry.until = now + answer.valid_for.max(SHORTEST);
                (entry.failing_since, entry.found) = (None, Some(found.clone()));
                found
            }
            Err(failure) => {
                let Some(entry) = entry else { return Err(failure.reason.into()) };
                let since = *entry.failing_since.get_or_insert(now);
                let old = entry.addresses().filter(|_| now - since < failure.keeps_for);
                let found = old.ok_or_else(|| failure.reason.into());
                entry.until = now + RETRY;
                entry.found = Some(found.clone());
                found
            }
        }
    }
}

impl Entry {
    /// While it is looked up. Where the name servers have failed already, no request waits for them to fail again.
    fn meanwhile(&self, pending: watch::Receiver<Option<Found>>) -> Result<Found, Waits> {
        match (self.addresses(), self.failing_since) {
            (Some(old), Some(_)) => Ok(Ok(old)),
            (old, _) => Err((pending, old)),
        }
    }

    fn addresses(&self) -> Option<Arc<[IpAddr]>> {
        self.found.clone()?.ok()
    }
}

/// Forgets names where there are too many: those that have expired, or else all that are not being looked up.
fn make_room(entries: &mut HashMap<Arc<str>, Entry>) {
    if entries.len() >= MOST_NAMES {
        let now = Instant::now();
        entries.retain(|_, entry| entry.pending.is_some() || entry.until > now);
    }
    if entries.len() >= MOST_NAMES {
        entries.retain(|_, entry| entry.pending.is_some());
    }
}

/// A lookup under way. It is over when this is dropped, however it ends.
struct Turn {
    names: &'static Names,
    host: Arc<str>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(entry) = self.names.entries.lock().get_mut(&self.host) {
            entry.pending = None;
        }
    }
}

#[cfg(test)]
mod tests;
