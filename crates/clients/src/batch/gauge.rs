//! How many entries of each configuration are not sent yet: `batch_process_entries`.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tidegate_plugin_api::{Request, Variable, variables::Named};

/// The entries of one configuration. As in APISIX, route and address are those of its first request.
pub(super) struct Gauge {
    name: String,
    waiting: AtomicUsize,
    place: OnceLock<(String, String)>,
}

static ALL: Mutex<Vec<Weak<Gauge>>> = Mutex::new(Vec::new());

impl Gauge {
    pub(super) fn new(name: &str) -> Arc<Gauge> {
        Arc::new(Gauge { name: name.to_owned(), waiting: AtomicUsize::new(0), place: OnceLock::new() })
    }

    pub(super) fn add(self: &Arc<Gauge>, request: Option<&Request>) {
        self.waiting.fetch_add(1, Relaxed);
        if let Some(request) = request.filter(|_| self.place.get().is_none()) {
            self.appear(request);
        }
    }

    pub(super) fn done(&self, count: usize) {
        self.waiting.fetch_sub(count, Relaxed);
    }

    #[cold]
    fn appear(self: &Arc<Gauge>, request: &Request) {
        let text = |name| {
            let value = request.variable(&Variable::Named(name)).unwrap_or_default();
            String::from_utf8_lossy(&value).into_owned()
        };
        if self.place.set((text(Named::RouteId), text(Named::ServerAddr))).is_ok() {
            let mut all = ALL.lock();
            all.retain(|gauge| gauge.strong_count() > 0);
            all.push(Arc::downgrade(self));
        }
    }
}

/// Name, route id and server address to the number of entries.
pub fn entries() -> BTreeMap<(String, String, String), usize> {
    let mut sums = BTreeMap::new();
    let all = ALL.lock();
    for gauge in all.iter().filter_map(Weak::upgrade) {
        if let Some((route, server)) = gauge.place.get() {
            *sums.entry((gauge.name.clone(), route.clone(), server.clone())).or_default() +=
                gauge.waiting.load(Relaxed);
        }
    }
    sums
}
