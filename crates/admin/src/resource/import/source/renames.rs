//! What has another name in the file than at the last import, and is the same.
//!
//! Names came from lines and positions once. An object that is unchanged since gives way to the one that has its content, without
//! asking.

use std::collections::{HashMap, HashSet};

use serde_json::Value;
use tidegate_model::Kind;
use tidegate_store::State;

use super::{
    marks::{Seal, bare},
    outlook::{Key, Outlook},
    place::Place,
};
use crate::resource::import::plan::Items;

/// Takes what is the same out of `left`. `missing`: objects of the file that are not there.
pub(super) fn take(
    seal: &Seal<'_>,
    state: &State,
    items: &Items,
    missing: &[Key],
    outlook: &mut Outlook,
) -> Vec<Key> {
    let refused: HashSet<&Key> = outlook.changed.iter().map(|changed| &changed.key).collect();
    let mut new: HashMap<String, Vec<&Key>> = HashMap::new();
    for key in missing.iter().filter(|key| !refused.contains(key)) {
        let content = items.get(key).and_then(|value| content(key, value));
        new.entry(content.unwrap_or_default()).or_default().push(key);
    }
    new.remove("");
    let (mut renamed, mut left) = (Vec::new(), Vec::new());
    for key in std::mem::take(&mut outlook.left) {
        let object = state.get(key.0, &key.1).filter(|_| !outlook.touched.contains(&key));
        let found = object.and_then(|object| {
            let value = object.value();
            let others = new.get_mut(&content(&key, &value)?)?;
            let at = others.iter().position(|other| {
                let wanted = items.get(*other);
                seal.secrets_are_covered()
                    || wanted.is_some_and(|wanted| seal.secrets_are_equal(&key, &value, wanted))
            })?;
            Some(others.remove(at))
        });
        match found {
            Some(_) => renamed.push(key),
            None => left.push(key),
        }
    }
    outlook.left = left;
    renamed
}

/// Of a route its place, of others all that has an effect. `None`: objects of this kind are their names.
fn content(key: &Key, value: &Value) -> Option<String> {
    if let Some(place) = Place::of(key.0, value) {
        return Some(format!("{place:?}"));
    }
    if !matches!(key.0, Kind::Credential | Kind::Upstream | Kind::Ssl | Kind::Proto) {
        return None;
    }
    let owner = key.1.split_once("/credentials/").map(|(owner, _)| owner).unwrap_or_default();
    let mut value = bare(key.0, value);
    if let Some(fields) = value.as_object_mut() {
        ["id", "name", "desc"].iter().for_each(|name| _ = fields.remove(*name));
    }
    Some(format!("{} {owner} {value}", key.0.directory()))
}
