//! Configuration shared by several gateways, and with APISIX: a prefix of an etcd cluster.
//!
//! All objects are held in memory. One task keeps them in step: it connects to a member, reads everything below the
//! prefix once, then follows a single watch. When the connection is lost, it takes the next member and continues from
//! the last revision it saw; where etcd has forgotten that revision it reads everything again and applies the
//! difference. Losing etcd never removes the running configuration: a value that cannot be used is named and left
//! out, an outage changes nothing, and the next start without etcd takes the snapshot on disk.
//!
//! Writes go to etcd at once, and are answered when the watch has brought them back: the writer reads its own write,
//! and so does every later reader of the same gateway.

mod connection;
mod doubt;
mod follow;
mod keys;
mod load;
mod options;
mod pings;
mod report;
mod rpc;
mod shared;
mod snapshot;
mod tls;
mod users;
mod values;
mod write;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    thread::JoinHandle,
};

use parking_lot::Mutex;
use tokio::{runtime::Handle, sync::watch, task};

use self::{
    connection::Member,
    pings::Pings,
    shared::{Followed, Shared},
    snapshot::Earlier,
};
pub use self::{
    options::{Options, Seal, TlsOptions, Unseal},
    report::Report,
};
use crate::{
    BoxFuture, Changes, State, Store, Users, Write, Written, collections::PluginList, error::StoreError,
    live::Live,
};

/// An etcd cluster, in the layout of APISIX's keys, with a snapshot on disk for starts without it.
pub struct Etcd {
    shared: Arc<Shared>,
    follower: task::JoinHandle<()>,
    runtime: Handle,
    reporter: Mutex<Option<task::JoinHandle<()>>>,
    snapshots: Mutex<Option<JoinHandle<()>>>,
}

impl Etcd {
    /// Reads the configuration, from etcd or else from the snapshot, and keeps following etcd on `runtime`.
    /// The error says why there is neither.
    pub fn open(options: Options, runtime: &Handle) -> Result<Self, StoreError> {
        let members: Result<Vec<Member>, String> =
            options.hosts.iter().map(|host| Member::parse(host)).collect();
        let members = members.map_err(StoreError::Unavailable)?;
        let tls = if members.iter().any(|member| member.address.starts_with("https")) {
            Some(Arc::new(tls::client_config(&options.tls).map_err(StoreError::Unavailable)?))
        } else {
            None
        };
        let earlier = snapshot::read(&options);
        let (sender, receiver) = mpsc::channel();
        let has_snapshot = matches!(earlier, Earlier::Kept(_));
        let (state, cluster, plugins, unusable) = match earlier {
            Earlier::Kept(kept) => (kept.state, kept.cluster, kept.plugins, None),
            Earlier::Unusable(reason) => (State::default(), 0, None, Some(reason)),
            Earlier::Nothing => (State::default(), 0, None, None),
        };
        let shared = Arc::new(Shared {
            options,
            members,
            live: Live::new(state),
            client: watch::Sender::new(None),
            followed: watch::Sender::new(Followed { cluster, ..Followed::default() }),
            writes: watch::Sender::new(0),
            pings: Pings::default(),
            plugins: Mutex::new(plugins),
            unusable,
            cluster_revision: AtomicU64::new(0),
            term: AtomicU64::new(0),
            revisions_doubted: AtomicBool::new(false),
            closed: AtomicBool::new(false),
            changed: Mutex::new(Some(sender)),
        });
        let follower = runtime.spawn(follow::run(shared.clone(), tls));
        if let Err(error) = runtime.block_on(shared.first_state(has_snapshot)) {
            follower.abort();
            return Err(error);
        }
        let snapshots = snapshot::start(shared.clone(), receiver)?;
        Ok(Self {
            shared,
            follower,
            runtime: runtime.clone(),
            reporter: Mutex::default(),
            snapshots: Mutex::new(Some(snapshots)),
        })
    }

    /// The list of plugins in etcd, if there is one.
    pub fn plugins(&self) -> Option<PluginList> {
        self.shared.plugins.lock().clone()
    }

    /// Whether a member answers and the configuration is in step with it.
    pub fn is_reachable(&self) -> bool {
        self.shared.client.borrow().is_some()
    }

    /// The newest revision of the cluster that was heard of, whichever key it was about.
    pub fn cluster_revision(&self) -> u64 {
        self.shared.cluster_revision.load(Relaxed)
    }

    /// Keeps a report in etcd for as long as the store follows it.
    pub fn keep(&self, report: Report) {
        let kept = report::keep(self.shared.clone(), report);
        let before = self.reporter.lock().replace(self.runtime.spawn(kept));
        if let Some(before) = before {
            before.abort();
        }
    }

    /// Stops following, and writes the snapshot if it is behind.
    pub fn close(&self) {
        // Aborting does not stop a step that another thread is in.
        self.shared.closed.store(true, Relaxed);
        self.follower.abort();
        let reporter = self.reporter.lock().take();
        if let Some(reporter) = reporter {
            reporter.abort();
        }
        self.shared.changed.lock().take();
        let snapshots = self.snapshots.lock().take();
        if let Some(thread) = snapshots {
            let _ = thread.join();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for Etcd {
    fn read(&self, read: &mut dyn FnMut(&State)) {
        self.shared.live.read(|state| read(state));
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        let shared = self.shared.clone();
        // On a separate task: a caller that goes away does not leave a write half done.
        let written = self.runtime.spawn(async move { write::write(&shared, write).await });
        Box::pin(async move {
            written.await.unwrap_or_else(|_| {
                Err(StoreError::Unavailable("the gateway is stopping and etcd has not responded".to_owned()))
            })
        })
    }

    fn users(&self) -> Option<&dyn Users> {
        Some(self)
    }

    fn changes_since(&self, revision: u64) -> Changes {
        self.shared.live.changes_since(revision)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.shared.live.watch()
    }

    fn is_writable(&self) -> bool {
        true
    }
}
