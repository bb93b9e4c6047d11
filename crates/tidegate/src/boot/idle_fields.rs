//! Logs the fields of objects that change nothing: at the start in one line for each, later with each write.

use std::collections::BTreeMap;

use model::{Object, PluginCatalog, idle};
use store::Store;
use telemetry::error_log::{self, Level};

/// The first object with a field, and how many more have it.
struct Seen {
    first: String,
    more: usize,
    why: &'static str,
}

/// `host_ports`: see [`idle::of`].
pub fn log<'a>(
    objects: impl Iterator<Item = &'a Object>,
    host_ports: bool,
    catalog: &dyn PluginCatalog,
    store: &dyn Store,
) {
    let mut seen: BTreeMap<(&'static str, &'static str), Seen> = BTreeMap::new();
    let mut in_vain: Vec<(&Object, String)> = Vec::new();
    for object in objects {
        let texts = idle::of(object, host_ports, catalog);
        in_vain.extend(texts.into_iter().map(|text| (object, text)));
        for field in idle::fields(object) {
            let name = || format!("{}/{}", object.kind.directory(), object.id);
            seen.entry((object.kind.directory(), field.path))
                .and_modify(|seen| seen.more += 1)
                .or_insert_with(|| Seen { first: label(&name(), &field.name()), more: 0, why: field.why });
        }
    }
    log_vain(&in_vain, store);
    for Seen { first, more, why } in seen.values() {
        let others = if *more == 0 { String::new() } else { format!(" (and in {more} more)") };
        error_log::log(Level::Warn, format_args!("{first}{others} has no effect: {why}"));
    }
}

/// So many are named, and the rest counted: a configuration may have as many as routes.
const MOST_NAMED: usize = 10;

fn log_vain(found: &[(&Object, String)], store: &dyn Store) {
    let places = if found.is_empty() { None } else { store.places() };
    for (object, text) in found.iter().take(MOST_NAMED) {
        let place = places.as_ref().map(|places| places(object.kind, &object.id, text)).unwrap_or_default();
        error_log::log(Level::Warn, format_args!("{place}{}/{}: {text}", object.kind.directory(), object.id));
    }
    if let Some(more @ 1..) = found.len().checked_sub(MOST_NAMED) {
        error_log::log(Level::Warn, format_args!("{more} more fields and places of objects have no effect"));
    }
}

fn label(object: &str, field: &str) -> String {
    if field.is_empty() { object.to_owned() } else { format!("{field} of {object}") }
}
