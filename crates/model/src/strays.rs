//! Keys of a document with lists of objects (`routes: [...]`) that are not lists. One may hold what guards an object, and
//! stand there by a slip of indentation or spelling. So may an item of a list, by one dash too many.

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

/// The first such key or item of a document.
pub fn first(document: &Value) -> Option<String> {
    let torn_of = |kind: Kind| {
        let list = kind.directory();
        let mut items = document.get(list)?.as_array()?.iter().enumerate();
        items.find_map(|(index, item)| torn(list, kind, index + 1, item.as_object()?))
    };
    let of_keys = document.as_object()?.iter().find_map(|(key, value)| fault(key, value));
    of_keys.or_else(|| Kind::ALL.into_iter().find_map(torn_of))
}

/// Why nothing may be served while the item is in its list: it has neither an id nor what such an object is found by, as the rest
/// of the item before it, guards included, that a stray `-` cut off. `number`: its position from 1.
pub fn torn(list: &str, kind: Kind, number: usize, item: &Map<String, Value>) -> Option<String> {
    let found_by: &[&str] = match kind {
        Kind::Route => &["uri", "uris"],
        Kind::StreamRoute => {
            &["server_port", "server_addr", "remote_addr", "sni", "upstream", "upstream_id", "service_id"]
        }
        Kind::Ssl => &["sni", "snis", "cert", "certs"],
        Kind::Consumer => &["username"],
        Kind::Service | Kind::PluginConfig | Kind::ConsumerGroup => &[],
        _ => return None,
    };
    let says_something =
        |(name, value): (&String, &Value)| !NOTES.contains(&name.as_str()) && !is_nothing(value);
    let has = |name: &&str| item.get(*name).is_some_and(|value| !value.is_null());
    // A misspelled path says which requests are meant.
    let is_path = |value: &Value| value.as_str().is_some_and(|text| text.starts_with('/'));
    let holds_path =
        |value: &Value| is_path(value) || value.as_array().is_some_and(|items| items.iter().any(is_path));
    if !item.iter().any(says_something)
        || ["id"].iter().chain(found_by).any(has)
        || kind == Kind::Route && item.values().any(holds_path)
    {
        return None;
    }
    let missing = match found_by.first() {
        Some(name) => format!("neither id nor {name}"),
        None => "no id".to_owned(),
    };
    Some(format!(
        "[{list}/{number}] has {missing}, and may be the rest of the item before it; remove the `-` that cuts it off, or add what is \
         missing"
    ))
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
    fn the_rest_of_an_item() {
        for (list, kind, item, is_torn) in [
            ("routes", Kind::Route, json!({"plugins": {"key-auth": {}}}), true),
            ("routes", Kind::Route, json!({"id": null, "vars": [["arg_a", "==", "b"]]}), true),
            ("routes", Kind::Route, json!({"plugins": {"proxy-rewrite": {"uri": "/a"}}}), true),
            ("routes", Kind::Route, json!({"id": 1, "plugins": {"key-auth": {}}}), false),
            ("routes", Kind::Route, json!({"uri": "/a"}), false),
            ("routes", Kind::Route, json!({"path": "/a", "plugins": {"key-auth": {}}}), false),
            ("routes", Kind::Route, json!({"paths": ["/a"]}), false),
            ("routes", Kind::Route, json!({"name": "a", "plugins": {}}), false),
            ("stream_routes", Kind::StreamRoute, json!({"plugins": {"ip-restriction": {}}}), true),
            ("stream_routes", Kind::StreamRoute, json!({"upstream_id": 1}), false),
            ("ssls", Kind::Ssl, json!({"client": {"ca": "x"}}), true),
            ("ssls", Kind::Ssl, json!({"sni": "a.test"}), false),
            ("services", Kind::Service, json!({"plugins": {"key-auth": {}}}), true),
            ("consumer_groups", Kind::ConsumerGroup, json!({"plugins": {"limit-count": {}}}), true),
            ("consumers", Kind::Consumer, json!({"group_id": "a"}), true),
            ("consumers", Kind::Consumer, json!({"username": "a"}), false),
            ("global_rules", Kind::GlobalRule, json!({"plugins": {"key-auth": {}}}), false),
            ("upstreams", Kind::Upstream, json!({"nodes": {"a:1": 1}}), false),
        ] {
            let found = torn(list, kind, 2, item.as_object().expect("an object"));
            assert_eq!(found.is_some(), is_torn, "{list}: {item}: {found:?}");
        }
    }

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
