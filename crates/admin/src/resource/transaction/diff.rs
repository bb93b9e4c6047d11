//! What differs between two versions of an object, field by field. Secrets are compared, and shown as a mask.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_model::{Kind, PluginCatalog, mask::mask_resource};

/// The time of the write, which differs always.
const UPDATE_TIME: &str = "/update_time";

/// Entries of `path` (a JSON pointer), `before` and `after`; what is not there has no such member.
pub(in super::super) fn of_object(
    key: &(Kind, Arc<str>),
    before: Option<&Value>,
    after: Option<&Value>,
    catalog: &dyn PluginCatalog,
) -> Vec<Value> {
    let masked = |value: Option<&Value>| {
        value.map(|value| {
            let mut value = value.clone();
            mask_resource(key.0, &key.1, &mut value, catalog);
            value
        })
    };
    let (shown_before, shown_after) = (masked(before), masked(after));
    let mut entries = Vec::new();
    compare(
        "",
        Pair { real: before, shown: shown_before.as_ref() },
        Pair { real: after, shown: shown_after.as_ref() },
        &mut entries,
    );
    entries
}

/// A value, and the same with its secrets hidden.
#[derive(Clone, Copy)]
struct Pair<'a> {
    real: Option<&'a Value>,
    shown: Option<&'a Value>,
}

impl<'a> Pair<'a> {
    fn member(self, name: &str) -> Pair<'a> {
        Pair {
            real: self.real.and_then(|value| value.get(name)),
            shown: self.shown.and_then(|value| value.get(name)),
        }
    }
}

fn compare(path: &str, before: Pair<'_>, after: Pair<'_>, entries: &mut Vec<Value>) {
    if before.real == after.real || path == UPDATE_TIME {
        return;
    }
    if let (Some(Value::Object(old)), Some(Value::Object(new))) = (before.real, after.real) {
        let added = new.keys().filter(|name| !old.contains_key(*name));
        for name in old.keys().chain(added) {
            let inner = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
            compare(&inner, before.member(name), after.member(name), entries);
        }
        return;
    }
    let mut entry = json!({ "path": path });
    if let Some(fields) = entry.as_object_mut() {
        for (name, pair) in [("before", before), ("after", after)] {
            if let Some(shown) = pair.shown {
                fields.insert(name.to_owned(), shown.clone());
            }
        }
    }
    entries.push(entry);
}
