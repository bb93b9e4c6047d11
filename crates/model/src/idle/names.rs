//! Names of objects that do not exist, or that no object can have.

use std::collections::HashSet;

use serde_json::Value;

use crate::{Kind, Object, Objects, PluginCatalog};

/// An object without any of these fields names no other object.
const WORDS: [&str; 8] = [
    "anonymous_consumer",
    "consumer-restriction",
    "acl",
    "sla",
    "traffic-split",
    "grpc-transcode",
    ORIGINS,
    "chaitin-waf",
];

const ORIGINS: &str = "allow_origins_by_metadata";

/// The default of `external_user_label_field` of acl.
const LABEL_OF_USERS: &str = "groups";

/// Where users with labels come from that are not consumers. Code may name them as well.
const SIGN_INS: [&str; 6] = [
    "saml-auth",
    "feishu-auth",
    "dingtalk-auth",
    "serverless-pre-function",
    "serverless-post-function",
    "script",
];

/// The most names listed of one field; more are counted.
const MOST: usize = 3;

pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog, all: &dyn Objects) -> Vec<String> {
    let mut found = Vec::new();
    if !WORDS.iter().any(|word| object.document.may_have(word)) {
        return found;
    }
    let value = object.value();
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        if conf.pointer("/_meta/disable") == Some(&Value::Bool(true)) {
            continue;
        }
        found.extend(plugin(name, conf, all).into_iter().map(|text| format!("plugins.{name}.{text}")));
        for nested in catalog.facts(name).iter().flat_map(|facts| (facts.nested)(conf)) {
            let texts = plugin(nested.name, nested.conf, all).into_iter();
            found.extend(texts.map(|text| format!("plugins.{name}.{}.{text}", nested.path)));
        }
    }
    found
}

fn plugin(plugin: &str, conf: &Value, all: &dyn Objects) -> Vec<String> {
    let mut found = Vec::new();
    let mut look = |field: &str, kind: Kind, names: Vec<&str>| found.extend(nobody(field, kind, &names, all));
    look("anonymous_consumer", Kind::Consumer, text(conf, "anonymous_consumer").into_iter().collect());
    if plugin == "consumer-restriction" {
        let kind = match text(conf, "type") {
            Some("consumer_group_id") => Kind::ConsumerGroup,
            Some("route_id") => Kind::Route,
            Some("service_id") => Kind::Service,
            _ => Kind::Consumer,
        };
        for list in ["whitelist", "blacklist"] {
            look(list, kind, texts(conf, list).collect());
        }
        let entries = conf.get("allowed_by_methods").and_then(Value::as_array).into_iter().flatten();
        look("allowed_by_methods", kind, entries.filter_map(|entry| text(entry, "user")).collect());
    }
    if plugin == "acl" {
        found.extend(unworn(conf, all));
        return found;
    }
    if plugin == "sla" {
        let levels = conf.get("consumers").and_then(Value::as_object).into_iter().flatten();
        look("consumers", Kind::Consumer, levels.map(|(name, _)| name.as_str()).collect());
    }
    if plugin == "traffic-split" {
        let ids: Vec<String> = split_upstreams(conf).filter_map(id).collect();
        look("rules", Kind::Upstream, ids.iter().map(String::as_str).collect());
    }
    if plugin == "grpc-transcode" {
        look("proto_id", Kind::Proto, conf.get("proto_id").and_then(id).as_deref().into_iter().collect());
    }
    if plugin == "cors" {
        found.extend(origins(conf, all));
    }
    if plugin == "chaitin-waf" {
        found.extend(detectors(conf, all));
    }
    found
}

/// The messages about the names in a field.
fn nobody(field: &str, kind: Kind, names: &[&str], all: &dyn Objects) -> Vec<String> {
    let (what, dot) = if kind == Kind::Consumer { ("consumer", "") } else { ("object", ".") };
    let is_possible = |name: &&&str| is_name(name, dot);
    let impossible = names.iter().filter(|name| !is_possible(name)).map(|name| {
        let letters = if dot.is_empty() { "_ and -" } else { "_, - and ." };
        format!("{field}: invalid {what} name {name:?}; use letters, digits, {letters}")
    });
    let is_absent = |name: &&&str| {
        // A reference: the name is resolved elsewhere.
        !crate::schema::rules::is_secret_reference(name) && all.get(kind, name).is_none()
    };
    let absent: Vec<&str> = names.iter().filter(is_possible).filter(is_absent).copied().collect();
    let absent = listed(&absent).map(|list| match absent.len() {
        1 => format!("{field}: {} {list} does not exist", kind.noun()),
        _ => format!("{field}: {} {list} do not exist", kind.directory().replace('_', " ")),
    });
    impossible.chain(absent).collect()
}

/// Labels, and values of them, that no consumer has. Users of an identity provider, where objects have one, have one label only, which
/// other fields name.
fn unworn(conf: &Value, all: &dyn Objects) -> Vec<String> {
    let named = ["external_user_label_field_key", "external_user_label_field"];
    let given = named.into_iter().find_map(|field| text(conf, field));
    let have_users = || SIGN_INS.iter().any(|name| !all.with_field(name).is_empty());
    let is_of_users = |label: &str| match given {
        Some(given) => label == given,
        None => label == LABEL_OF_USERS && have_users(),
    };
    let unworn = |field: &str| -> Vec<String> {
        let labels = conf.get(field).and_then(Value::as_object).into_iter().flatten();
        let labels = labels.filter(|(label, _)| !is_of_users(label));
        let absent = labels.filter_map(|(label, wanted)| {
            let Some(worn) = worn(label, all) else { return Some(label.clone()) };
            let wanted = wanted.as_array().into_iter().flatten().filter_map(Value::as_str);
            let absent: Vec<&str> = wanted.filter(|value| !worn.contains(*value)).collect();
            listed(&absent).map(|list| format!("{label}: {list}"))
        });
        absent.map(|label| format!("{field}: no consumer has the label {label}; case counts")).collect()
    };
    ["allow_labels", "deny_labels"].into_iter().flat_map(unworn).collect()
}

/// The values that consumers have of a label; `None`: none has the label.
fn worn(label: &str, all: &dyn Objects) -> Option<HashSet<String>> {
    let wearers = all.with_field(label).into_iter().filter(|object| object.kind == Kind::Consumer);
    let mut found = None;
    for object in wearers {
        let value = object.value();
        let Some(text) = value.get("labels").and_then(|labels| labels.get(label)) else { continue };
        let found = found.get_or_insert_with(HashSet::new);
        let text = text.as_str().unwrap_or_default();
        match text.starts_with('[').then(|| serde_json::from_str::<Vec<String>>(text)) {
            Some(list) => found.extend(list.unwrap_or_default()),
            None => found.extend(text.split(',').map(|part| part.trim().to_owned())),
        }
    }
    found
}

/// `a, b, c and 2 more`.
fn listed(names: &[&str]) -> Option<String> {
    let list = names.iter().take(MOST).copied().collect::<Vec<&str>>().join(", ");
    let more = names.len().saturating_sub(MOST);
    let list = if more == 0 { list } else { format!("{list} and {more} more") };
    (!names.is_empty()).then_some(list)
}

/// Origins by metadata that are not listed there allow nothing.
fn origins(conf: &Value, all: &dyn Objects) -> Option<String> {
    let metadata = all.get(Kind::PluginMetadata, "cors").map(|object| object.value());
    let known = metadata.as_ref().and_then(|metadata| metadata.get("allow_origins"));
    let is_unknown = |name: &&str| known.is_none_or(|known| known.get(name).is_none());
    let unknown: Vec<&str> = texts(conf, ORIGINS).filter(is_unknown).collect();
    listed(&unknown).map(|list| {
        format!("{ORIGINS}: {list} not in allow_origins of plugin_metadata/cors: no origin is allowed by it")
    })
}

/// Requests that nothing judges are refused.
fn detectors(conf: &Value, all: &dyn Objects) -> Option<String> {
    let metadata = all.get(Kind::PluginMetadata, "chaitin-waf").map(|object| object.value());
    let member = |name: &str| conf.get(name).or_else(|| metadata.as_ref()?.get(name));
    let nodes = metadata.as_ref().and_then(|metadata| metadata.get("nodes")).and_then(Value::as_array);
    let is_vain = nodes.is_none_or(Vec::is_empty) && member("mode").is_none_or(|mode| mode != "off");
    is_vain.then(|| {
        "nodes: plugin_metadata/chaitin-waf has none: requests are answered 500 until it names a detection server"
            .to_owned()
    })
}

fn texts<'a>(conf: &'a Value, name: &str) -> impl Iterator<Item = &'a str> {
    conf.get(name).and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str)
}

fn text<'a>(conf: &'a Value, name: &str) -> Option<&'a str> {
    conf.get(name).and_then(Value::as_str)
}

/// The ids of the upstreams that the configuration of a traffic-split names, as written.
pub fn split_upstreams(conf: &Value) -> impl Iterator<Item = &Value> {
    let rules = conf.get("rules").and_then(Value::as_array);
    let weighted = rules.into_iter().flatten().filter_map(|rule| rule.get("weighted_upstreams")?.as_array());
    weighted.flatten().filter_map(|upstream| upstream.get("upstream_id"))
}

/// Ids may be numbers.
fn id(value: &Value) -> Option<String> {
    match value {
        Value::String(id) => Some(id.clone()),
        Value::Number(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Whether the schemas of consumers and of ids accept it. A reference to a secret may resolve to a valid
/// name.
pub(super) fn is_name(name: &str, more: &str) -> bool {
    crate::schema::rules::is_secret_reference(name)
        || name.chars().all(|sign| sign.is_ascii_alphanumeric() || "_-".contains(sign) || more.contains(sign))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Has consumer `rose` and metadata of cors.
    struct Known;

    impl Objects for Known {
        fn get(&self, kind: Kind, id: &str) -> Option<Object> {
            let value = match (kind, id) {
                (Kind::Consumer, "rose") => json!({"username": "rose"}),
                (Kind::PluginMetadata, "cors") => json!({"allow_origins": {"a": "https://a.example"}}),
                _ => return None,
            };
            let document = crate::Document::new(&value);
            Some(Object { kind, id: id.into(), document, created: 1, modified: 1, fault: None, unread: None })
        }

        fn with_field(&self, _: &str) -> Vec<Object> {
            Vec::new()
        }

        fn of_kind(&self, _: Kind) -> Vec<Object> {
            Vec::new()
        }
    }

    #[test]
    fn names_that_nobody_has() {
        for (name, conf, expected) in [
            (
                "key-auth",
                json!({"anonymous_consumer": "any one"}),
                &["anonymous_consumer: invalid consumer name"][..],
            ),
            (
                "key-auth",
                json!({"anonymous_consumer": "any_one-1"}),
                &["anonymous_consumer: consumer any_one-1 does"],
            ),
            ("key-auth", json!({"anonymous_consumer": "rose"}), &[]),
            ("key-auth", json!({"anonymous_consumer": "$env://ANY"}), &[]),
            (
                "consumer-restriction",
                json!({"whitelist": ["jack ", "rose"]}),
                &["whitelist: invalid consumer name"],
            ),
            (
                "consumer-restriction",
                json!({"whitelist": ["a", "b", "rose", "c", "d", "e"]}),
                &["whitelist: consumers a, b, c and 2 more do not exist"],
            ),
            (
                "consumer-restriction",
                json!({"type": "route_id", "blacklist": ["a.b", "a b"]}),
                &["blacklist: invalid object name", "blacklist: route a.b does not"],
            ),
            (
                "consumer-restriction",
                json!({"allowed_by_methods": [{"user": "a.b", "methods": ["GET"]}]}),
                &["allowed_by_methods: invalid consumer name"],
            ),
            (
                "sla",
                json!({"consumers": {"rose": "gold", " b": "gold"}}),
                &["consumers: invalid consumer name"],
            ),
            ("cors", json!({"allow_origins_by_metadata": ["a", "b"]}), &["allow_origins_by_metadata: b not"]),
            ("cors", json!({"allow_origins_by_metadata": ["a"]}), &[]),
            ("chaitin-waf", json!({}), &["nodes: plugin_metadata/chaitin-waf has none"]),
            ("chaitin-waf", json!({"mode": "off"}), &[]),
        ] {
            let found = plugin(name, &conf, &Known);
            assert_eq!(found.len(), expected.len(), "{conf}: {found:?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
        }
    }
}
