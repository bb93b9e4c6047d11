//! Keys of a document with lists of objects (`routes: [...]`) that are not lists. One may hold what guards an object, and
//! stand there by a slip of indentation or spelling.

use serde_json::{Map, Value};

use crate::{Kind, nearest, schemas};

/// Fields that say nothing about requests.
const NOTES: [&str; 6] = ["id", "name", "desc", "labels", "create_time", "update_time"];

/// Why nothing may be served while the key is there; `None` for a known list, and for what no object could have.
pub fn fault(key: &str, value: &Value) -> Option<String> {
    if is_nothing(value) || is_for_anchors(key) {
        return None;
    }
    if key == "plugins" {
        let is_list = value.as_array().is_some_and(|items| items.iter().all(is_plugin));
        return (!is_list).then(|| {
            "[plugins] is not a list of plugins' names; if an object is meant to have it, indent it below that object"
                .to_owned()
        });
    }
    if is_list(key) {
        return None;
    }
    if let Some(noun) = owner(key) {
        return Some(format!(
            "[{key}] is a field of a {noun} and belongs to none here; indent it below its {noun}"
        ));
    }
    let hint = hint(key);
    (!hint.is_empty()).then(|| format!("unknown key [{key}]{hint}"))
}

/// The end of a message about such a key: the list that was probably meant, or nothing.
pub fn hint(key: &str) -> String {
    let near = nearest::hint(key, names().chain(["plugins"]));
    if !near.is_empty() {
        return near;
    }
    shortened(key).map(|name| format!("; did you mean {name}?")).unwrap_or_default()
}

/// The list of whose name a key has one word: `globals`, `rules`.
fn shortened(key: &str) -> Option<&'static str> {
    let key = key.to_ascii_lowercase();
    let word = key.strip_suffix('s').unwrap_or(&key);
    let has = |name: &&str| name.split('_').any(|part| part.strip_suffix('s').unwrap_or(part) == word);
    names().filter(|name| name.contains('_')).find(has)
}

/// The first such key of a document.
pub fn first(document: &Value) -> Option<String> {
    document.as_object()?.iter().find_map(|(key, value)| fault(key, value))
}

/// What is wrong with `null`, a mapping or a text in place of a list of objects, and what to write. `null` is not the empty list, as
/// it is in APISIX: it is what is left of a list whose items are commented out, and what a list no longer has is deleted.
pub fn not_a_list(name: &str) -> String {
    format!("should be a list; write {name}: [] for none")
}

/// A list that a document may have, or the version of one.
pub fn is_list(key: &str) -> bool {
    let name = key.strip_suffix("_conf_version").unwrap_or(key);
    name == "plugins" || names().any(|known| known == name)
}

/// A key of a document that holds no objects, as in Compose files: a place for the anchors of YAML.
pub fn is_for_anchors(key: &str) -> bool {
    key.starts_with("x-")
}

/// What the list of plugins may have.
fn is_plugin(item: &Value) -> bool {
    let is_flag = item.get("stream").is_none_or(Value::is_boolean);
    item.is_string() || item.get("name").is_some_and(Value::is_string) && is_flag
}

fn names() -> impl Iterator<Item = &'static str> {
    Kind::ALL.into_iter().map(Kind::directory)
}

/// The kind of object that has a field of this name, of those that have few other words for it.
fn owner(key: &str) -> Option<&'static str> {
    let has = |kind: &Kind| {
        let schema = schemas::name_of_kind(*kind).and_then(schemas::document);
        let fields = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
        fields.is_some_and(|fields| fields.contains_key(key))
    };
    let kinds = [Kind::Route, Kind::StreamRoute, Kind::Upstream, Kind::Ssl, Kind::Consumer];
    kinds.iter().find(|kind| !NOTES.contains(&key) && has(kind)).map(|kind| kind.noun())
}

/// `[]`, `{}` or null.
fn is_nothing(value: &Value) -> bool {
    value.is_null()
        || value.as_array().is_some_and(Vec::is_empty)
        || value.as_object().is_some_and(Map::is_empty)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_may_have_slipped_out_of_an_object() {
        for (key, value, expected) in [
            ("routes", json!([{}]), None),
            ("routes_conf_version", json!(1), None),
            ("plugins", json!(["a", {"name": "b", "stream": true}]), None),
            ("plugins", json!({}), None),
            ("plugins", json!({"key-auth": {}}), Some("[plugins] is not a list")),
            ("plugins", json!([{"key-auth": {}}]), Some("[plugins] is not a list")),
            ("plugins", json!("key-auth"), Some("[plugins] is not a list")),
            ("vars", json!([["a", "==", "b"]]), Some("[vars] is a field of a route")),
            ("vars", json!([]), None),
            ("status", json!(0), Some("[status] is a field of a route")),
            ("remote_addr", json!("10.0.0.1"), Some("[remote_addr] is a field of a route")),
            ("client", json!({"ca": "x"}), Some("[client] is a field of a ssl")),
            ("desc", json!("mine"), None),
            ("x-common", json!({"a": 1}), None),
            ("rotues", json!([{}]), Some("unknown key [rotues]; did you mean routes?")),
            ("rotues", json!([]), None),
            ("globals", json!([{}]), Some("unknown key [globals]; did you mean global_rules?")),
            ("Rules", json!([{}]), Some("unknown key [Rules]; did you mean global_rules?")),
            ("templates", json!([{}]), None),
        ] {
            let found = fault(key, &value);
            match (&found, expected) {
                (None, None) => {}
                (Some(found), Some(start)) if found.starts_with(start) => {}
                _ => panic!("{key}: {value}: {found:?}"),
            }
        }
    }
}
