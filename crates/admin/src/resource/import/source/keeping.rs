//! `earlier=keep`: what was changed by hand stays, where nothing that the file closes is open then.
//!
//! The outcome is that of the file alone with the change by hand made again: of an object that the file has not changed since the
//! last import, or that has all that the file has, and more. Its place in the order is that of the file. Everything else is
//! refused: what of the change still holds, and for which requests, is not known.

use std::{collections::HashSet, sync::Arc};

use serde_json::{Value, json};
use tidegate_store::State;

use super::{
    marks::{DIGEST, SOURCE, Seal, bare, is_labelled, label, marked},
    outlook::{Changed, Key, Was, named},
    place::Place,
};
use crate::resource::{import::plan::Items, transaction::Wanted};

/// What becomes of it: nothing, or a new value. The error says why it cannot be kept.
pub(super) fn kept(
    seal: &Seal<'_>,
    source: &str,
    state: &State,
    items: &Items,
    changed: &Changed,
) -> Result<Option<Value>, String> {
    let (kind, id) = &changed.key;
    let Some(file) = items.get(&changed.key) else { return Ok(None) };
    let Some(object) = state.get(*kind, id) else {
        return match &changed.was {
            Was::Deleted(before) => was_the_same(&changed.key, before.as_deref(), file).map(|()| None),
            Was::There { .. } | Was::Renamed => Ok(None),
        };
    };
    let current = object.value();
    same_place(&changed.key, &current, file)?;
    let written = match &changed.was {
        Was::There { written } => written.as_deref(),
        Was::Deleted(_) | Was::Renamed => None,
    };
    let is_its = label(&current, SOURCE) == Some(source);
    let digest = label(&current, DIGEST).filter(|_| is_its);
    // Whether the last import wrote it.
    let was = |value: &Value| {
        written.is_some_and(|written| bare(*kind, written) == bare(*kind, value))
            || digest.is_some_and(|digest| seal.digests(&changed.key, value).iter().any(|own| own == digest))
    };
    if was(file) {
        return Ok(None);
    }
    let in_order = || in_order(seal, source, &changed.key, &current, file);
    let mut older = file.clone();
    set_order(&mut older, &current);
    if was(&older) {
        return Ok(Some(in_order()));
    }
    covers(&bare(*kind, file), &bare(*kind, &current))
        .map_err(|path| format!("the file has another {path} by now"))?;
    let is_imported = is_its || written.is_some();
    Ok((is_imported && is_labelled(*kind)).then(in_order))
}

/// A deletion holds for the requests of that time.
fn was_the_same(key: &Key, before: Option<&Value>, file: &Value) -> Result<(), String> {
    match before {
        Some(before) => same_place(key, before, file),
        None if Place::of(key.0, file).is_none() => Ok(()),
        None => Err("it was deleted, and which requests it took is not known any more".to_owned()),
    }
}

fn same_place(key: &Key, own: &Value, file: &Value) -> Result<(), String> {
    match (Place::of(key.0, own), Place::of(key.0, file)) {
        (Some(own), Some(wanted)) if own != wanted => Err(format!(
            "it takes {}, and what the file calls {} takes {}",
            own.text(),
            named(key),
            wanted.text()
        )),
        _ => Ok(()),
    }
}

/// With the order and the digest of what the file has: a later import finds out again what was changed by hand.
fn in_order(seal: &Seal<'_>, source: &str, key: &Key, current: &Value, file: &Value) -> Value {
    let mut value = current.clone();
    set_order(&mut value, file);
    let marked = marked(seal, key, source, file);
    let Some(fields) = value.as_object_mut().filter(|_| is_labelled(key.0)) else { return value };
    let labels = fields.entry("labels").or_insert_with(|| json!({}));
    for name in [SOURCE, DIGEST] {
        if let (Some(labels), Some(text)) = (labels.as_object_mut(), label(&marked, name)) {
            labels.insert(name.to_owned(), json!(text));
        }
    }
    value
}

/// What decides between routes for the same requests: a route is also entered under the longer paths of those that come later.
const ORDER: [&str; 3] = ["priority", "uri", "uris"];

fn set_order(value: &mut Value, from: &Value) {
    let Some(fields) = value.as_object_mut() else { return };
    for name in ORDER {
        match from.get(name) {
            Some(given) => _ = fields.insert(name.to_owned(), given.clone()),
            None => _ = fields.remove(name),
        }
    }
}

/// What only people read.
const REMARKS: [&str; 2] = ["desc", "name"];

/// Whether the object has all that the file has. The error names the first part that differs.
fn covers(file: &Value, current: &Value) -> Result<(), String> {
    let (Some(file), Some(current)) = (file.as_object(), current.as_object()) else { return Ok(()) };
    for (name, wanted) in file.iter().filter(|(name, _)| !REMARKS.contains(&name.as_str())) {
        let is_covered = current.get(name).is_some_and(|own| match name.as_str() {
            "plugins" | "labels" => missing_part(wanted, own).is_none(),
            _ => own == wanted,
        });
        if !is_covered {
            let part = current.get(name).and_then(|own| missing_part(wanted, own));
            return Err(part.map_or_else(|| name.clone(), |part| format!("{name}.{part}")));
        }
    }
    Ok(())
}

/// The first member that the second does not have alike.
fn missing_part<'a>(wanted: &'a Value, own: &Value) -> Option<&'a str> {
    let mut wanted = wanted.as_object()?.iter();
    wanted.find(|(name, value)| own.get(name.as_str()) != Some(*value)).map(|(name, _)| name.as_str())
}

/// What an earlier import left, beside what this one writes: a route that comes first somewhere would answer without the new guards,
/// and what was changed by hand may be in the file under another name. In the order of the names.
pub(super) fn beside(
    left: &[Key],
    touched: &HashSet<Key>,
    state: &State,
    wanted: &[Wanted],
) -> Vec<(Key, String)> {
    let writes = |wanted: &&Wanted| wanted.value.is_some();
    let is_new = |wanted: &&Wanted| state.get(wanted.kind, &wanted.id).is_none();
    let routes: Vec<(Key, Place)> = wanted.iter().filter(writes).filter_map(placed).collect();
    let mut refused = Vec::new();
    for key in left {
        let Some(object) = state.get(key.0, &key.1) else { continue };
        let new = wanted.iter().filter(writes).filter(is_new).find(|wanted| wanted.kind == key.0);
        if let Some(new) = new.filter(|_| touched.contains(key)) {
            let other = named(&(new.kind, new.id.clone()));
            let why =
                format!("it was changed by hand, and may be in the file under another name, such as {other}");
            refused.push((key.clone(), why));
            continue;
        }
        let value = object.value();
        let Some(place) = Place::of(key.0, &value).filter(|_| value.get("status") != Some(&json!(0))) else {
            continue;
        };
        if let Some((other, theirs)) = routes.iter().find(|(_, other)| other.may_meet(&place)) {
            let why = format!(
                "it takes {}, and {}, which this import writes, takes {}: nothing shows which comes first",
                place.text(),
                named(other),
                theirs.text()
            );
            refused.push((key.clone(), why));
        }
    }
    refused
}

fn placed(wanted: &Wanted) -> Option<(Key, Place)> {
    let place = Place::of(wanted.kind, wanted.value.as_deref()?)?;
    Some(((wanted.kind, wanted.id.clone()), place))
}

/// A value in place of one that the import would write.
pub(super) fn rewritten(key: &Key, value: Value) -> Wanted {
    Wanted { kind: key.0, id: key.1.clone(), value: Some(Arc::new(value)), ttl_seconds: None, sealed: None }
}
