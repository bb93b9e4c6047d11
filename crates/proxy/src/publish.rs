//! How a new configuration reaches the workers: one pointer swap.
//!
//! Old snapshots are kept here until no worker holds them, so that freeing 50,000 routes never happens on a worker.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use tidegate_plugin_api::Snapshot;
use tidegate_telemetry::background::give_way;
use tokio::sync::Notify;

/// The newest snapshot, from the compiler to the workers.
pub struct Publisher {
    current: ArcSwap<Snapshot>,
    /// Counts publications; workers compare it with the one they hold.
    generation: AtomicU64,
    retired: Mutex<Vec<Arc<Snapshot>>>,
    /// Notified by each worker that has taken a newer snapshot.
    pub(crate) applied: Arc<Notify>,
    /// Wakes idle workers, so that they release the old snapshot, too.
    pub(crate) published: Notify,
}

impl Publisher {
    /// `first`: what workers begin with.
    pub fn new(first: Arc<Snapshot>) -> Publisher {
        Publisher {
            current: ArcSwap::new(first),
            generation: AtomicU64::new(1),
            retired: Mutex::default(),
            applied: Arc::default(),
            published: Notify::new(),
        }
    }

    /// Each worker uses it from its next request on.
    pub fn publish(&self, snapshot: Arc<Snapshot>) {
        let old = self.current.swap(snapshot);
        self.generation.fetch_add(1, Ordering::Release);
        self.retired.lock().push(old);
        self.published.notify_waiters();
    }

    /// Grows with each snapshot.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The newest one.
    pub fn current(&self) -> Arc<Snapshot> {
        self.current.load_full()
    }

    /// The id of a route of the current snapshot, or of a retired one that may still be in use. Scans all
    /// routes.
    pub(crate) fn route_id(&self, serial: u64) -> Option<Arc<str>> {
        let of = |snapshot: &Snapshot| {
            snapshot.routes.iter().find(|route| route.serial == serial).map(|route| route.id.clone())
        };
        of(&self.current.load()).or_else(|| self.retired.lock().iter().rev().find_map(|old| of(old)))
    }

    /// Drops the snapshots that no worker uses any more. For the control thread, now and then.
    pub fn collect(&self) {
        let unused: Vec<Arc<Snapshot>> = {
            let mut retired = self.retired.lock();
            let (unused, kept) = retired.drain(..).partition(|snapshot| Arc::strong_count(snapshot) == 1);
            *retired = kept;
            unused
        };
        for snapshot in unused {
            drop(snapshot);
            give_way();
        }
    }
}
