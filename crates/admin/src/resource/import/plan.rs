//! What an import writes, from the objects of its file and the state that it meets.

use std::{collections::HashMap, sync::Arc};

use serde_json::{Value, json};
use tidegate_model::{Kind, Object};
use tidegate_store::State;

use crate::resource::{
    checks::{now, set},
    delete,
    transaction::Wanted,
};

pub(super) type Items = HashMap<(Kind, Arc<str>), Value>;

/// What becomes of objects that the file does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// They stay.
    Merge,
    /// They go.
    Replace,
}

pub(super) fn plan(state: &State, items: &Items, mode: Mode) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for ((kind, id), value) in items {
        if let Some(value) = overwritten(*kind, value, state.get(*kind, id)) {
            wanted.push(Wanted {
                kind: *kind,
                id: id.clone(),
                value: Some(Arc::new(value)),
                ttl_seconds: None,
                sealed: None,
            });
        }
    }
    if mode == Mode::Replace {
        for object in state.all() {
            // Decorations have no place in the form; they go with their service.
            let kept = object.kind == Kind::GraphqlCostDecoration
                || items.contains_key(&(object.kind, object.id.clone()));
            if !kept {
                wanted.extend(removed(state, items, object.kind, &object.id));
            }
        }
    }
    wanted.sort_by(|left, right| (left.kind, &left.id).cmp(&(right.kind, &right.id)));
    wanted
}

/// The value to write over the object; `None` if it has that.
pub(super) fn overwritten(kind: Kind, value: &Value, current: Option<&Object>) -> Option<Value> {
    let current = current.map(Object::value);
    match current.as_deref() {
        Some(current) if timed(kind, value, Some(current), Some(current)) == *current => None,
        current => Some(timed(kind, value, current, None)),
    }
}

/// The object goes, and what belongs to it; what the file has of that stays, and is refused without its owner.
pub(super) fn removed(state: &State, items: &Items, kind: Kind, id: &Arc<str>) -> Vec<Wanted> {
    let gone = |kind, id| Wanted { kind, id, value: None, ttl_seconds: None, sealed: None };
    let owned = delete::owned_by(state, kind, id).into_iter();
    let owned = owned.filter(|key| !items.contains_key(key)).map(|(kind, id)| gone(kind, id));
    std::iter::once(gone(kind, id.clone())).chain(owned).collect()
}

/// With the times that the file does not give: made when `created` was, changed when `updated` was or now.
fn timed(kind: Kind, value: &Value, created: Option<&Value>, updated: Option<&Value>) -> Value {
    let mut value = value.clone();
    if kind == Kind::PluginMetadata {
        return value;
    }
    for (field, from) in [("create_time", created), ("update_time", updated)] {
        if value.get(field).is_none() {
            let time = from.and_then(|from| from.get(field)).cloned();
            match (time, from) {
                (Some(time), _) => set(&mut value, field, time),
                // An object without this time is compared without it.
                (None, Some(_)) => {}
                (None, None) => set(&mut value, field, json!(now())),
            }
        }
    }
    value
}
