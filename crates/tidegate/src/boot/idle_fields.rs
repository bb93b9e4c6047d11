//! Logs the fields of objects that change nothing: at the start in one line for each, later with each write.

use std::collections::BTreeMap;

use tidegate_model::{Kind, Object, Objects, PluginCatalog, idle, mask::mask_message};
use tidegate_telemetry::{
    background::give_way,
    error_log::{self, Level},
};

use super::{catalogs::all_stream_plugins, kept_places::KeptPlaces};

/// The first object with a field, and how many more have it.
struct Seen<'a> {
    first: &'a Object,
    name: String,
    more: usize,
    why: &'static str,
}

pub(super) fn log<'a>(
    objects: impl Iterator<Item = &'a Object>,
    matching: idle::Matching,
    catalog: &dyn PluginCatalog,
    all: &dyn Objects,
    places: &KeptPlaces,
) {
    let mut seen: BTreeMap<(&'static str, &'static str), Seen<'_>> = BTreeMap::new();
    let mut in_vain: Vec<(&Object, String)> = Vec::new();
    for object in objects {
        give_way();
        let texts = idle::of(object, matching, catalog_of(object, catalog), all);
        in_vain.extend(texts.into_iter().map(|text| (object, text)));
        for field in idle::fields(object, matching) {
            seen.entry((object.kind.directory(), field.path))
                .and_modify(|seen| seen.more += 1)
                .or_insert_with(|| Seen { first: object, name: field.name(), more: 0, why: field.why });
        }
    }
    log_vain(&in_vain, catalog, places);
    for Seen { first, name, more, why } in seen.values() {
        let place = places.prefix(first.kind, &first.id, name);
        let first = label(&format!("{}/{}", first.kind.directory(), first.id), name);
        let others = if *more == 0 { String::new() } else { format!(" (and in {more} more)") };
        error_log::log(Level::Warn, format_args!("{place}{first}{others} has no effect: {why}"));
    }
}

/// The plugins that an object of this kind may have.
fn catalog_of<'c>(object: &Object, catalog: &'c dyn PluginCatalog) -> &'c dyn PluginCatalog {
    let of_streams = all_stream_plugins().filter(|_| object.kind == Kind::StreamRoute);
    of_streams.map_or(catalog, |catalog| catalog)
}

/// So many are named, and the rest counted: a configuration may have as many as routes.
const MOST_NAMED: usize = 10;
/// Of those that keep a route from requests that it was meant for, which another route may serve without its guards.
const MOST_OF_PLACES: usize = 1000;

fn log_vain(found: &[(&Object, String)], catalog: &dyn PluginCatalog, places: &KeptPlaces) {
    let (of_places, others): (Vec<_>, Vec<_>) =
        found.iter().partition(|(_, text)| idle::is_about_place(text));
    let named = of_places.iter().take(MOST_OF_PLACES).chain(others.iter().take(MOST_NAMED));
    let mut count = 0;
    for (object, text) in named {
        count += 1;
        let place = places.prefix(object.kind, &object.id, text);
        let catalog = catalog_of(object, catalog);
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
