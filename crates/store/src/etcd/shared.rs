//! What the tasks of the store share.

use std::{
    sync::{
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
        mpsc,
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{Options, connection::Member, pings::Pings, rpc::Client};
use crate::{collections::PluginList, error::StoreError, live::Live};

pub(super) struct Shared {
    pub(super) options: Options,
    pub(super) members: Vec<Member>,
    pub(super) live: Live,
    /// The connection in use; `None` while there is none that is in step.
    pub(super) client: watch::Sender<Option<Client>>,
    pub(super) followed: watch::Sender<Followed>,
    /// Writes of ours under way: sent, and not yet seen in the watch.
    pub(super) writes: watch::Sender<usize>,
    pub(super) pings: Pings,
    pub(super) plugins: Mutex<Option<PluginList>>,
    /// Why the snapshot of an earlier run could not be used.
    pub(super) unusable: Option<String>,
    /// The newest revision of the whole cluster that was heard of.
    pub(super) cluster_revision: AtomicU64,
    /// The term of the member that was last watched; 0: none yet.
    pub(super) term: AtomicU64,
    /// Whether etcd may have used a revision twice, until everything was read again.
    pub(super) revisions_doubted: AtomicBool,
    /// Connections end with the runtime from now on, which is not an outage.
    pub(super) closed: AtomicBool,
    /// Wakes the thread that writes snapshots.
    pub(super) changed: Mutex<Option<mpsc::Sender<()>>>,
}

/// How following goes.
#[derive(Clone, Debug, Default)]
pub(super) struct Followed {
    /// The cluster that the state is from; 0: none yet.
    pub(super) cluster: u64,
    /// Whether everything was read from etcd, so that a watch can continue from there.
    pub(super) loaded: bool,
    /// Whether the state is from etcd, not from the snapshot.
    pub(super) from_etcd: bool,
    /// Rounds over all members that failed, in a row.
    pub(super) rounds: u64,
    /// Why there is no connection.
    pub(super) problem: Option<String>,
}

/// A write is under way until this is dropped.
pub(super) struct UnderWay<'a>(&'a watch::Sender<usize>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

impl Shared {
    pub(super) fn write_begins(&self) -> UnderWay<'_> {
        self.writes.send_modify(|count| *count += 1);
        UnderWay(&self.writes)
    }

    /// Waits for the first full read. With a snapshot, a short outage is enough to continue with that.
    pub(super) async fn first_state(&self, has_snapshot: bool) -> Result<(), StoreError> {
        let rounds = if has_snapshot { 1 } else { self.options.startup_retry.max(1) };
        let mut followed = self.followed.subscribe();
        let decided = followed.wait_for(|followed| followed.loaded || followed.rounds >= rounds);
        let decided = if has_snapshot {
            tokio::time::timeout(PATIENCE_WITH_SNAPSHOT, decided).await.ok()
        } else {
            Some(decided.await)
        };
        if decided.and_then(Result::ok).is_some_and(|followed| followed.loaded) {
            return Ok(());
        }
        let problem = self.followed.borrow().problem.clone();
        let problem = problem.unwrap_or_else(|| "no answer yet".to_owned());
        if has_snapshot {
            let (revision, file) = (self.live.read(|state| state.revision), &self.options.snapshot);
            tidegate_telemetry::error_log::log(
                tidegate_telemetry::error_log::Level::Error,
                format_args!(
                    "etcd cannot be used ({problem}); serving the configuration of revision {revision} from {} until it can",
                    file.display()
                ),
            );
            return Ok(());
        }
        let file = self.options.snapshot.display();
        let snapshot = match &self.unusable {
            Some(reason) => format!("{file} cannot be used either ({reason})"),
            None => format!("there is no configuration of an earlier run in {file}"),
        };
        Err(StoreError::Unavailable(format!(
            "etcd cannot be used ({problem}), and {snapshot}; start etcd, or correct deployment.etcd"
        )))
    }

    /// Notifies the snapshot's thread that there is something to write.
    pub(super) fn mark_changed(&self) {
        if let Some(sender) = self.changed.lock().as_ref() {
            let _ = sender.send(());
        }
    }

    pub(super) fn heard_of(&self, revision: u64) {
        self.cluster_revision.fetch_max(revision, Relaxed);
    }
}

/// How long a start waits for etcd when there is a snapshot to start from.
const PATIENCE_WITH_SNAPSHOT: Duration = Duration::from_secs(3);
