//! Names of consumers and ids that no object can have: who is meant by them is nobody.

use serde_json::Value;

use crate::{Object, PluginCatalog};

/// An object without any of these fields names nobody.
const WORDS: [&str; 3] = ["anonymous_consumer", "consumer-restriction", "sla"];

pub(super) fn of(object: &Object, catalog: &dyn PluginCatalog) -> Vec<String> {
    let mut found = Vec::new();
    if !WORDS.iter().any(|word| object.document.may_have(word)) {
        return found;
    }
    let value = object.value();
    for (name, conf) in value.get("plugins").and_then(Value::as_object).into_iter().flatten() {
        found.extend(plugin(name, conf).map(|text| format!("plugins.{name}.{text}")));
        for nested in catalog.facts(name).iter().flat_map(|facts| (facts.nested)(conf)) {
            let texts = plugin(nested.name, nested.conf);
            found.extend(texts.map(|text| format!("plugins.{name}.{}.{text}", nested.path)));
        }
    }
    found
}

/// What a name is, and how its objects are called.
#[derive(Clone, Copy)]
enum Named {
    Consumer,
    Id,
}

fn plugin<'a>(plugin: &str, conf: &'a Value) -> impl Iterator<Item = String> + 'a {
    let texts = |value: Option<&'a Value>| value.and_then(Value::as_array).into_iter().flatten();
    let mut names: Vec<(&'static str, &str, Named)> = Vec::new();
    names.extend(text(conf, "anonymous_consumer").map(|name| ("anonymous_consumer", name, Named::Consumer)));
    if plugin == "consumer-restriction" {
        let named = match text(conf, "type") {
            None | Some("consumer_name") => Named::Consumer,
            Some(_) => Named::Id,
        };
        for list in ["whitelist", "blacklist"] {
            names.extend(texts(conf.get(list)).filter_map(Value::as_str).map(|name| (list, name, named)));
        }
        let users = texts(conf.get("allowed_by_methods")).filter_map(|entry| text(entry, "user"));
        names.extend(users.map(|name| ("allowed_by_methods", name, named)));
    }
    if plugin == "sla" {
        let levels = conf.get("consumers").and_then(Value::as_object).into_iter().flatten();
        names.extend(levels.map(|(name, _)| ("consumers", name.as_str(), Named::Consumer)));
    }
    names.into_iter().filter_map(|(field, name, named)| {
        let (what, dot) = match named {
            Named::Consumer => ("consumer", ""),
            Named::Id => ("object", "."),
        };
        (!is_name(name, dot)).then(|| {
            let letters = if dot.is_empty() { "_ and -" } else { "_, - and ." };
            format!("{field}: no {what} can be named {name:?}: names have letters, digits, {letters} only")
        })
    })
}

fn text<'a>(conf: &'a Value, name: &str) -> Option<&'a str> {
    conf.get(name).and_then(Value::as_str)
}

/// Whether the schemas of consumers and of ids take it. A reference to a secret may lead to one.
pub(super) fn is_name(name: &str, more: &str) -> bool {
    crate::schema::is_secret_reference(name)
        || name.chars().all(|sign| sign.is_ascii_alphanumeric() || "_-".contains(sign) || more.contains(sign))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_that_nobody_has() {
        for (name, conf, expected) in [
            ("key-auth", json!({"anonymous_consumer": "any one"}), &["anonymous_consumer: no consumer"][..]),
            ("key-auth", json!({"anonymous_consumer": "any_one-1"}), &[]),
            ("key-auth", json!({"anonymous_consumer": "$env://ANY"}), &[]),
            ("consumer-restriction", json!({"whitelist": ["jack ", "rose"]}), &["whitelist: no consumer"]),
            (
                "consumer-restriction",
                json!({"type": "route_id", "blacklist": ["a.b", "a b"]}),
                &["blacklist: no object"],
            ),
            (
                "consumer-restriction",
                json!({"allowed_by_methods": [{"user": "a.b", "methods": ["GET"]}]}),
                &["allowed_by_methods: no consumer"],
            ),
            ("sla", json!({"consumers": {"a": "gold", " b": "gold"}}), &["consumers: no consumer"]),
        ] {
            let found: Vec<String> = plugin(name, &conf).collect();
            assert_eq!(found.len(), expected.len(), "{conf}: {found:?}");
            assert!(found.iter().zip(expected).all(|(found, start)| found.starts_with(start)), "{found:?}");
        }
    }
}
