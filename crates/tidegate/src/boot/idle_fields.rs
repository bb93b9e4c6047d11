//! Logs the fields of objects that change nothing: at the start in one line for each, later with each write. On a thread of its own:
//! beside a busy worker, 50,000 objects take longer than a change may wait for the compiler.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
};

use anyhow::Context;
use tidegate_model::{Kind, Object, Objects, PluginCatalog, idle, mask::mask_message};
use tidegate_plugin_api::{Catalog, Snapshot, Variable};
use tidegate_routing::Router;
use tidegate_store::{Store, Stored};
use tidegate_telemetry::{
    background::{begin_turn, give_way, lower_priority},
    error_log::{self, Level},
};

use super::{catalogs::all_stream_plugins, kept_places::KeptPlaces};

/// So many objects at once leave memory behind that is worth giving back.
pub(super) const MANY_OBJECTS: usize = 500;

/// What is asked of objects, and where they stand.
pub(super) struct IdleFields {
    pub matching: idle::Matching,
    pub catalog: Arc<Catalog>,
    pub store: Arc<dyn Store>,
    pub places: Arc<KeptPlaces>,
}

/// Objects to look at. The newest of each, so there are never more than the store has had.
#[derive(Default)]
struct Waiting {
    objects: BTreeMap<(Kind, Arc<str>), Object>,
    /// That they are in.
    snapshot: Option<Arc<Snapshot>>,
    is_over: bool,
}

#[derive(Default)]
struct Queue {
    waiting: Mutex<Waiting>,
    changed: Condvar,
}

impl Queue {
    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for objects; `None` at the end.
    fn next(&self) -> Option<(Vec<Object>, Arc<Snapshot>)> {
        let idle = |waiting: &mut Waiting| !waiting.is_over && waiting.objects.is_empty();
        let mut waiting = self.changed.wait_while(self.lock(), idle).unwrap_or_else(PoisonError::into_inner);
        let snapshot = waiting.snapshot.take().filter(|_| !waiting.is_over)?;
        Some((mem::take(&mut waiting.objects).into_values().collect(), snapshot))
    }
}

/// The thread that looks at objects. It ends when this is dropped.
pub(super) struct FieldLog {
    queue: Arc<Queue>,
    thread: Option<thread::JoinHandle<()>>,
}

impl FieldLog {
    pub(super) fn start(fields: Arc<IdleFields>) -> anyhow::Result<FieldLog> {
        let queue = Arc::new(Queue::default());
        let from = queue.clone();
        let thread = thread::Builder::new()
            .name("field-log".to_owned())
            .spawn(move || {
                lower_priority();
                while let Some((objects, snapshot)) = from.next() {
                    begin_turn();
                    log(&objects, &fields, &snapshot, || from.lock().is_over);
                    drop(snapshot);
                    if objects.len() > MANY_OBJECTS {
                        drop(objects);
                        super::memory::release_memory();
                    }
                }
            })
            .context("cannot start the thread that logs fields without effect")?;
        Ok(FieldLog { queue, thread: Some(thread) })
    }

    pub(super) fn look_at(&self, objects: impl Iterator<Item = Object>, snapshot: Arc<Snapshot>) {
        let mut waiting = self.queue.lock();
        waiting.snapshot = Some(snapshot);
        waiting.objects.extend(objects.map(|object| ((object.kind, object.id.clone()), object)));
        drop(waiting);
        self.queue.changed.notify_one();
    }
}

impl Drop for FieldLog {
    fn drop(&mut self) {
        self.queue.lock().is_over = true;
        self.queue.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The first object with a field, and how many more have it.
struct Seen<'a> {
    first: &'a Object,
    name: String,
    more: usize,
    why: &'static str,
}

/// Logs nothing more once `is_over`.
pub(super) fn log(objects: &[Object], fields: &IdleFields, snapshot: &Snapshot, is_over: impl Fn() -> bool) {
    let IdleFields { matching, places, .. } = fields;
    let catalog: &dyn PluginCatalog = fields.catalog.as_ref();
    let all = Stored(fields.store.as_ref());
    let mut seen: BTreeMap<(&'static str, &'static str), Seen<'_>> = BTreeMap::new();
    let mut in_vain: Vec<(&Object, String)> = Vec::new();
    for object in objects {
        give_way();
        if is_over() {
            return;
        }
        let texts = idle::of(object, *matching, catalog_of(object, *matching, catalog), &all);
        in_vain.extend(texts.into_iter().map(|text| (object, text)));
        for field in idle::fields(object, *matching) {
            seen.entry((object.kind.directory(), field.path))
                .and_modify(|seen| seen.more += 1)
                .or_insert_with(|| Seen { first: object, name: field.name(), more: 0, why: field.why });
        }
    }
    let behind = behind_others(objects, &snapshot.router, &all);
    in_vain.extend(behind.iter().map(|(object, text)| (object, text.clone())));
    log_vain(&in_vain, *matching, catalog, places);
    for Seen { first, name, more, why } in seen.values() {
        let place = places.prefix(first.kind, &first.id, name);
        let first = label(&format!("{}/{}", first.kind.directory(), first.id), name);
        let others = if *more == 0 { String::new() } else { format!(" (and in {more} more)") };
        error_log::log(Level::Warn, format_args!("{place}{first}{others} has no effect: {why}"));
    }
    places.forget();
}

/// Routes of which other routes answer requests: among those of `objects`, and those whose requests they answer themselves.
fn behind_others(objects: &[Object], router: &Router<Variable>, all: &dyn Objects) -> Vec<(Object, String)> {
    let mut ids = BTreeSet::new();
    for route in objects.iter().filter(|object| object.kind == Kind::Route) {
        give_way();
        ids.extend(router.behind(&route.id));
        ids.insert(route.id.clone());
    }
    let said = |id: Arc<str>| {
        give_way();
        let text = router.shadowed(&id).in_words()?;
        Some((all.get(Kind::Route, &id)?, text))
    };
    ids.into_iter().filter_map(said).collect()
}

fn catalog_of<'c>(
    object: &Object,
    matching: idle::Matching,
    catalog: &'c dyn PluginCatalog,
) -> &'c dyn PluginCatalog {
    let of_streams = all_stream_plugins().filter(|_| matching.stream || object.kind == Kind::StreamRoute);
    idle::catalog_of(object, catalog, of_streams.map(|catalog| catalog as &dyn PluginCatalog))
}

/// So many are named, and the rest counted: a configuration may have as many as routes.
const MOST_NAMED: usize = 10;
/// Of those that keep a route from requests that it was meant for, which another route may serve without its guards.
const MOST_OF_PLACES: usize = 1000;

fn log_vain(
    found: &[(&Object, String)],
    matching: idle::Matching,
    catalog: &dyn PluginCatalog,
    places: &KeptPlaces,
) {
    let (of_places, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|(_, text)| idle::is_about_place(text));
    let named = of_places.iter().take(MOST_OF_PLACES).chain(others.iter().take(MOST_NAMED));
    let mut count = 0;
    for (object, text) in named {
        count += 1;
        let place = places.prefix(object.kind, &object.id, text);
        let catalog = catalog_of(object, matching, catalog);
        let text = mask_message(object.kind, &object.id, &object.value(), catalog, text);
        error_log::log(Level::Warn, format_args!("{place}{}/{}: {text}", object.kind.directory(), object.id));
    }
    if let Some(more @ 1..) = found.len().checked_sub(count) {
        error_log::log(Level::Warn, format_args!("{more} more fields and places of objects have no effect"));
    }
}

fn label(object: &str, field: &str) -> String {
    if field.is_empty() { object.to_owned() } else { format!("{field} of {object}") }
}
