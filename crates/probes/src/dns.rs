//! Addresses of nodes that are configured by name.
//!
//! The names in use are resolved ahead of requests and again whenever an answer expires. While DNS fails, the
//! last answer stays for a day (RFC 8767 section 5): an upstream is not lost because a resolver is. Once DNS
//! says that the name does not exist, it stays for 30 s.

mod system;

use std::{
    collections::{HashMap, HashSet},
    net::IpAddr,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{runtime::Handle, sync::watch, task::AbortHandle, time::Instant};

pub use system::{SystemLookup, SystemLookupOptions};

/// Where answers come from.
pub trait Lookup: Send + Sync + 'static {
    /// Asks for the addresses of a name. The error is for the log.
    fn lookup<'a>(
        &'a self,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<ResolvedName, LookupError>> + Send + 'a>>;
}

/// A lookup without an answer to go by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LookupError {
    /// For the log.
    pub reason: String,
    /// The name server knows that the name does not exist, or has no addresses.
    pub gone: bool,
}

impl LookupError {
    /// How long addresses from before the first such failure are used.
    pub fn keeps_for(&self) -> Duration {
        if self.gone { STALE_WHEN_GONE } else { STALE }
    }
}

/// What a name server knows of a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedName {
    /// In the order of the answer.
    pub addresses: Vec<IpAddr>,
    /// The least TTL of its records (RFC 1035 section 3.2.1).
    pub valid_for: Duration,
}

/// The names in use and what they resolve to. Resolution ends when this is dropped.
pub struct Domains {
    shared: Arc<Shared>,
    runtime: Handle,
}

struct Shared {
    lookup: Arc<dyn Lookup>,
    names: Mutex<HashMap<Arc<str>, Entry>>,
    /// Counts changes of addresses.
    changes: watch::Sender<u64>,
    /// Counts answers and failures, for tasks that wait for the first ones.
    attempts: watch::Sender<u64>,
}

struct Entry {
    addresses: Arc<[IpAddr]>,
    error: Option<String>,
    /// Since when lookups have failed without a break.
    failing_since: Option<Instant>,
    task: AbortHandle,
}

/// Addresses of a name that are used. Each is a node with connections and health of its own.
pub const MOST_ADDRESSES: usize = 64;

/// A TTL of 0 must not become a busy loop.
const SHORTEST: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_secs(2);
/// The last answer while no name server answers: between one and three days (RFC 8767 section 5).
const STALE: Duration = Duration::from_secs(24 * 3600);
/// The last answer once the name is gone: long enough for a zone that is being replaced.
const STALE_WHEN_GONE: Duration = Duration::from_secs(30);

impl Domains {
    /// Resolves nothing until names are added; the work is done on that runtime.
    pub fn new(runtime: Handle, lookup: Arc<dyn Lookup>) -> Self {
        let shared = Shared {
            lookup,
            names: Mutex::default(),
            changes: watch::Sender::new(0),
            attempts: watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared), runtime }
    }

    /// Replaces the set of names to keep resolved. Names that stay keep their answer and their timer.
    pub fn want<'a>(&self, names: impl IntoIterator<Item = &'a str>) {
        let wanted: HashSet<&str> = names.into_iter().collect();
        let mut entries = self.shared.names();
        entries.retain(|name, entry| {
            let kept = wanted.contains(&**name);
            if !kept {
                entry.task.abort();
            }
            kept
        });
        for name in wanted {
            if entries.contains_key(name) {
                continue;
            }
            let name: Arc<str> = name.into();
            let task = self.runtime.spawn(keep_resolved(Arc::clone(&self.shared), Arc::clone(&name)));
            let entry = Entry {
                addresses: Arc::new([]),
                error: None,
                failing_since: None,
                task: task.abort_handle(),
            };
            entries.insert(name, entry);
        }
        drop(entries);
        self.shared.attempts.send_modify(|attempts| *attempts += 1);
    }

    /// The last answer; empty when there was none yet or the name is not in the set.
    pub fn addresses(&self, name: &str) -> Arc<[IpAddr]> {
        self.shared.names().get(name).map(|entry| Arc::clone(&entry.addresses)).unwrap_or_default()
    }

    /// Why the last lookup of a name failed, if it did.
    pub fn error(&self, name: &str) -> Option<String> {
        self.shared.names().get(name)?.error.clone()
    }

    /// Changes when the addresses of any name have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.changes.subscribe()
    }

    /// Resolves when every name in the set has been answered or has failed once. Give it a timeout.
    pub async fn wait_until_resolved(&self) {
        let mut attempts = self.shared.attempts.subscribe();
        loop {
            let pending = |entry: &Entry| entry.addresses.is_empty() && entry.error.is_none();
            if !self.shared.names().values().any(pending) {
                return;
            }
            if attempts.changed().await.is_err() {
                return;
            }
        }
    }
}

impl Drop for Domains {
    fn drop(&mut self) {
        for entry in self.shared.names().values() {
            entry.task.abort();
        }
    }
}

impl Shared {
    fn names(&self) -> MutexGuard<'_, HashMap<Arc<str>, Entry>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps the answer and returns when to ask again.
    fn keep(&self, name: &str, result: Result<ResolvedName, LookupError>) -> Duration {
        let mut names = self.names();
        let Some(entry) = names.get_mut(name) else { return RETRY };
        let mut changed = false;
        let again = match result {
            Ok(mut answer) if !answer.addresses.is_empty() => {
                // Servers rotate their answers; that is not a change.
                answer.addresses.sort_unstable();
                answer.addresses.dedup();
                answer.addresses.truncate(MOST_ADDRESSES);
                changed = *entry.addresses != *answer.addresses;
                entry.addresses = answer.addresses.into();
                entry.error = None;
                entry.failing_since = None;
                answer.valid_for.max(SHORTEST)
            }
            failed => {
                let error = failed.err().unwrap_or_else(|| LookupError {
                    reason: format!("no addresses found for {name}"),
                    gone: true,
                });
                let since = *entry.failing_since.get_or_insert_with(Instant::now);
                if !entry.addresses.is_empty() && since.elapsed() >= error.keeps_for() {
                    entry.addresses = Arc::new([]);
                    changed = true;
                }
                entry.error = Some(error.reason);
                RETRY
            }
        };
        drop(names);
        if changed {
            self.changes.send_modify(|changes| *changes += 1);
        }
        self.attempts.send_modify(|attempts| *attempts += 1);
        again
    }
}

async fn keep_resolved(shared: Arc<Shared>, name: Arc<str>) {
    loop {
        let result = shared.lookup.lookup(&name).await;
        let again = shared.keep(&name, result);
        tokio::time::sleep(again).await;
    }
}

#[cfg(test)]
mod tests;
