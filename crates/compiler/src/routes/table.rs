//! The compiled routes, and the router that is made of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use rustc_hash::FxHashMap;
use tidegate_plugin_api::{Route, UpstreamHandle, Variable, route::RouteUpstream, table::Table};
use tidegate_routing::{
    RouteSpec, Router,
    router::{Layer, Mode, Stale},
};
use tidegate_telemetry::background::give_way;

struct Compiled {
    /// Position in the snapshot's table, kept while the route lives.
    slot: u32,
    /// `None` for a disabled route.
    spec: Option<Arc<RouteSpec<Variable>>>,
    on_body: bool,
    /// It cannot be used, and some of its paths can neither be read nor are they known from before.
    is_placeless: bool,
    /// Where the router's base has it.
    position: Option<u32>,
}

/// What becomes of a route's object.
pub(super) struct Built {
    pub(super) route: Route,
    pub(super) spec: Option<RouteSpec<Variable>>,
    pub(super) on_body: bool,
    pub(super) is_placeless: bool,
}

/// The compiled routes, by id.
#[derive(Default)]
pub(crate) struct Routes {
    by_id: BTreeMap<Arc<str>, Compiled>,
    table: Table<Route>,
    free: Vec<u32>,
    /// Routes that must be matched on the body.
    on_body: usize,
    base: Option<Arc<Layer<Variable>>>,
    /// Entries of the base that changes have replaced.
    stale: Stale,
    /// Routes that were put, changed or removed since the base was laid out.
    changed: BTreeSet<Arc<str>>,
}

/// Upstreams that were built again. The old ones are kept, so that no new one is at the place of another.
#[derive(Default)]
pub(crate) struct Replaced(FxHashMap<*const UpstreamHandle, (Arc<UpstreamHandle>, Arc<UpstreamHandle>)>);

impl Replaced {
    pub(crate) fn add(&mut self, before: Arc<UpstreamHandle>, after: Arc<UpstreamHandle>) {
        self.0.insert(Arc::as_ptr(&before), (before, after));
    }
}

/// So few changes are never worth a new base; of many routes this part may have changed.
const MIN_CHANGES: usize = 64;

const CHANGED_PART: usize = 64;

impl Routes {
    pub(super) fn put(&mut self, id: &Arc<str>, built: Built) {
        let Built { route, spec, on_body, is_placeless } = built;
        self.forget(id);
        let slot = self.free.pop().unwrap_or_else(|| self.table.add());
        let spec = spec.map(|spec| Arc::new(RouteSpec { id: slot, order: id.clone(), ..spec }));
        self.table.set(slot, Some(Arc::new(route)));
        let on_body = on_body && spec.is_some();
        self.on_body += usize::from(on_body);
        self.by_id.insert(id.clone(), Compiled { slot, spec, on_body, is_placeless, position: None });
        self.changed.insert(id.clone());
    }

    /// Makes a route use the new upstream if it uses one that was replaced. Nothing else of it changes, so that the
    /// router does not either.
    pub(crate) fn set_upstream(&mut self, id: &str, replaced: &Replaced, serial: u64) {
        let Some(compiled) = self.by_id.get(id) else { return };
        let Some(route) = self.table.get(compiled.slot as usize) else { return };
        let RouteUpstream::Some(upstream) = &route.upstream else { return };
        if let Some((_, after)) = replaced.0.get(&Arc::as_ptr(upstream)) {
            let upstream = RouteUpstream::Some(after.clone());
            let route = Route { upstream, serial, ..(**route).clone() };
            self.table.set(compiled.slot, Some(Arc::new(route)));
        }
    }

    /// Of the routes that are on, in the order of the store.
    pub(crate) fn specs(&self) -> Vec<Arc<RouteSpec<Variable>>> {
        self.by_id.values().filter_map(|compiled| compiled.spec.clone()).collect()
    }

    /// The paths of a route as it was compiled last.
    pub(super) fn paths(&self, id: &str) -> Vec<Box<str>> {
        let spec = self.by_id.get(id).and_then(|compiled| compiled.spec.as_ref());
        spec.map(|spec| spec.uris.clone()).unwrap_or_default()
    }

    /// Whether a route is on, and which paths it is for is not known of all of them.
    pub(crate) fn is_placeless(&self, id: &str) -> bool {
        self.by_id.get(id).is_some_and(|compiled| compiled.is_placeless)
    }

    pub(super) fn remove(&mut self, id: &Arc<str>) {
        if self.forget(id) {
            self.changed.insert(id.clone());
        }
    }

    pub(super) fn forget(&mut self, id: &str) -> bool {
        let Some(old) = self.by_id.remove(id) else { return false };
        // The number may be given again only in a later snapshot, which has its own table.
        self.free.push(old.slot);
        self.table.set(old.slot, None);
        self.on_body -= usize::from(old.on_body);
        if let Some(position) = old.position {
            self.stale.mark(position);
        }
        true
    }

    /// The router of the routes as they are now: changes over the base, or a new base when they have become many.
    pub(crate) fn router(&mut self, mode: Mode) -> Router<Variable> {
        let few = self.changed.len() <= MIN_CHANGES.max(self.by_id.len() / CHANGED_PART);
        if let Some(base) = self.base.as_ref().filter(|_| few && self.by_id.len() > MIN_CHANGES) {
            let changed = self.changed.iter().filter_map(|id| {
                give_way();
                self.by_id.get(id)?.spec.clone()
            });
            return Router::with_changes(base.clone(), self.stale.clone(), changed, give_way);
        }
        if self.base.is_none() {
            // As with the objects: the nodes of the map are half empty.
            self.by_id = std::mem::take(&mut self.by_id).into_iter().collect();
        }
        let specs = self.by_id.values().filter_map(|compiled| {
            give_way();
            compiled.spec.clone()
        });
        let router = Router::build_in_turns(mode, specs, give_way);
        let used = self.by_id.values_mut().filter(|compiled| compiled.spec.is_some());
        for (position, compiled) in (0u32..).zip(used) {
            give_way();
            compiled.position = Some(position);
        }
        self.base = Some(router.base().clone());
        self.stale = Stale::default();
        self.changed.clear();
        router
    }

    pub(crate) fn table(&self) -> Table<Route> {
        self.table.clone()
    }

    pub(crate) fn matches_on_body(&self) -> bool {
        self.on_body > 0
    }
}
