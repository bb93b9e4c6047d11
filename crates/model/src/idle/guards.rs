//! Plugins that are configured and guard nothing: rules without actions, conditions that no request meets.

use serde_json::Value;

use crate::Object;

/// Texts that are in an object this file has something to say of.
const WORDS: [&str; 4] = ["workflow", "fault-injection", "method", "request_method"];

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
    methods(&value, &mut found);
    found
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

/// Methods are compared as they are sent, and no client sends `get`.
fn methods(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => members.values().for_each(|member| methods(member, found)),
        Value::Array(items) => {
            if let [Value::String(name), Value::String(operator), Value::String(method)] = items.as_slice()
                && matches!(name.as_str(), "request_method" | "method")
                && operator == "=="
                && method.bytes().any(|byte| byte.is_ascii_lowercase())
            {
                let upper = method.to_ascii_uppercase();
                found.push(format!("the condition {name} == {method} never holds: write {upper}"));
            }
            items.iter().for_each(|item| methods(item, found));
        }
        _ => {}
    }
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
                json!({"key-auth": {"_meta": {"filter": ["OR", ["request_method", "==", "get"], ["uri", "==", "get"]]}}}),
                &["the condition request_method == get never holds: write GET"],
            ),
            (json!({"key-auth": {"_meta": {"filter": [["request_method", "==", "GET"]]}}}), &[]),
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
