//! Plugins that are configured and guard nothing: rules without actions, conditions that are empty.

use serde_json::Value;

use crate::Object;

/// Texts that are in an object this file has something to say of.
const WORDS: [&str; 5] = ["workflow", "fault-injection", "limit-count", "limit-req", "limit-conn"];

pub(super) fn of(object: &Object) -> Vec<String> {
    if !WORDS.iter().any(|word| object.document.may_have(word)) {
        return Vec::new();
    }
    let value = object.value();
    let plugin = |name: &str| value.get("plugins").and_then(|plugins| plugins.get(name));
    let mut found = Vec::new();
    if let Some(conf) = plugin("workflow") {
        found.extend(workflow(conf));
    }
    for part in ["abort", "delay"] {
        let vars =
            plugin("fault-injection").and_then(|conf| conf.get(part)).and_then(|part| part.get("vars"));
        if vars.is_some_and(is_empty) {
            found.push(format!(
                "plugin fault-injection: {part} has no effect: its vars are empty; leave them out"
            ));
        }
    }
    for name in ["limit-count", "limit-req", "limit-conn"] {
        found.extend(plugin(name).and_then(|conf| limit_key(name, conf)));
    }
    found
}

/// A limit whose key is never set counts by the client's address.
fn limit_key(plugin: &str, conf: &Value) -> Option<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let key = text("key")?;
    let wrong = match text("key_type").unwrap_or("var") {
        "var" if key.trim() != key => Some(format!("write {}", key.trim())),
        "var" if key.contains('$') => {
            let name = key.trim_start_matches('$').trim_start_matches('{').trim_end_matches('}');
            Some(format!("write {name}, or key_type var_combination"))
        }
        "var_combination" if !key.contains('$') => Some(format!("write ${key}, or key_type var")),
        _ => None,
    }?;
    Some(format!(
        "plugin {plugin}: the key {key} is no variable, so the client's address is counted: {wrong}"
    ))
}

/// An empty table of Lua is a list or an object.
fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

fn workflow(conf: &Value) -> Vec<String> {
    let Some(rules) = conf.get("rules").filter(|rules| !is_empty(rules)) else {
        return vec!["plugin workflow has no effect: it has no rules".to_owned()];
    };
    let rules = (1..).zip(rules.as_array().into_iter().flatten());
    let idle = rules.filter(|(_, rule)| rule.get("actions").is_none_or(is_empty));
    idle.map(|(number, _)| format!("plugin workflow: rule {number} has no effect: it has no actions"))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{Document, Kind};

    #[test]
    fn objects() {
        let returns = json!([["return", {"code": 403}]]);
        let cases = [
            (json!({"workflow": {"rules": [{"actions": returns}]}}), &[][..]),
            (json!({"workflow": {"rules": {}}}), &["plugin workflow has no effect"]),
            (json!({"workflow": {"rules": []}}), &["plugin workflow has no effect"]),
            (
                json!({"workflow": {"rules": [{"actions": returns}, {"actions": {}}]}}),
                &["plugin workflow: rule 2 has no effect"],
            ),
            (
                json!({"fault-injection": {"abort": {"http_status": 403, "vars": []}}}),
                &["plugin fault-injection: abort"],
            ),
            (json!({"fault-injection": {"abort": {"http_status": 403}}}), &[]),
            (
                json!({"limit-count": {"key": "$http_x"}}),
                &["plugin limit-count: the key $http_x is no variable"],
            ),
            (json!({"limit-req": {"key": "remote_addr "}}), &["plugin limit-req: the key remote_addr  "]),
            (
                json!({"limit-conn": {"key": "http_x", "key_type": "var_combination"}}),
                &["plugin limit-conn: the key http_x is no variable"],
            ),
            (json!({"limit-count": {"key": "x", "key_type": "constant"}}), &[]),
            (json!({"limit-count": {"key": "remote_addr"}}), &[]),
        ];
        for (plugins, expected) in cases {
            let document = Document::new(&json!({ "plugins": plugins }));
            let object = Object {
                kind: Kind::GlobalRule,
                id: "1".into(),
                document,
                created: 1,
                modified: 1,
                fault: None,
            };
            let found = of(&object);
            assert_eq!(found.len(), expected.len(), "{plugins}: {found:?}");
            for (found, expected) in found.iter().zip(expected) {
                assert!(found.starts_with(expected), "{found}");
            }
        }
    }
}
