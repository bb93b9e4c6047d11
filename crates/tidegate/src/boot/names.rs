//! Addresses of the names that upstreams use: looked up on threads of the control runtime, kept fresh, never waited for by
//! a request.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, ToSocketAddrs},
    sync::{Arc, Condvar, Mutex, PoisonError, Weak},
    time::{Duration, Instant},
};

use compile::Addresses;
use config::Settings;
use telemetry::error_log;
use tokio::{runtime::Runtime, sync::watch};

/// How often a name is looked up again.
const REFRESH: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Table {
    known: BTreeMap<Arc<str>, Vec<IpAddr>>,
    pending: BTreeSet<Arc<str>>,
    changed: BTreeSet<Arc<str>>,
}

pub struct Names {
    this: Weak<Names>,
    table: Mutex<Table>,
    arrived: Condvar,
    notify: watch::Sender<u64>,
    refresh: Duration,
    runtime: tokio::runtime::Handle,
}

impl Names {
    pub fn start(settings: &Settings, runtime: &Runtime) -> anyhow::Result<Arc<Names>> {
        let names = Arc::new_cyclic(|this| Names {
            this: this.clone(),
            table: Mutex::default(),
            arrived: Condvar::new(),
            notify: watch::channel(0).0,
            refresh: settings.apisix.dns_resolver_valid.unwrap_or(REFRESH),
            runtime: runtime.handle().clone(),
        });
        let keeper = names.clone();
        runtime.spawn(async move {
            loop {
                tokio::time::sleep(keeper.refresh.max(Duration::from_secs(1))).await;
                let known: Vec<Arc<str>> = keeper.lock().known.keys().cloned().collect();
                for name in known {
                    keeper.look_up(name);
                }
            }
        });
        Ok(names)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn look_up(&self, name: Arc<str>) {
        let Some(this) = self.this.upgrade() else { return };
        self.runtime.spawn_blocking(move || {
            let found = (&*name, 0u16).to_socket_addrs();
            let mut table = this.lock();
            match found {
                Ok(addresses) => {
                    let mut addresses: Vec<IpAddr> = addresses.map(|address| address.ip()).collect();
                    addresses.sort();
                    addresses.dedup();
                    if table.known.get(&name) != Some(&addresses) {
                        table.known.insert(name.clone(), addresses);
                        table.changed.insert(name.clone());
                    }
                }
                // The addresses of before stay: stale is better than none.
                Err(error) => {
                    error_log::log(
                        error_log::Level::Error,
                        format_args!("failed to resolve {name}: {error}"),
                    );
                }
            }
            table.pending.remove(&name);
            drop(table);
            this.arrived.notify_all();
            this.notify.send_modify(|count| *count += 1);
        });
    }

    pub fn changed(&self) -> watch::Receiver<u64> {
        self.notify.subscribe()
    }

    pub fn take_changed(&self) -> BTreeSet<Arc<str>> {
        std::mem::take(&mut self.lock().changed)
    }

    /// Waits until nothing is being looked up for the first time; the names whose addresses came.
    pub fn wait_for_new(&self, patience: Duration) -> BTreeSet<Arc<str>> {
        let end = Instant::now() + patience;
        let mut table = self.lock();
        while !table.pending.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            table = self.arrived.wait_timeout(table, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        std::mem::take(&mut table.changed)
    }
}

impl Addresses for Names {
    fn of(&self, host: &str) -> Option<Vec<IpAddr>> {
        let name: Arc<str> = Arc::from(host);
        let mut table = self.lock();
        if let Some(addresses) = table.known.get(&name) {
            return Some(addresses.clone());
        }
        if table.pending.insert(name.clone()) {
            drop(table);
            self.look_up(name);
        }
        None
    }
}
