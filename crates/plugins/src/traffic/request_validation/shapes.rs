//! Forms and header fields whose values are not texts: a name that comes again is a list, one without `=` is `true`.
//!
//! To JSON Schema `maxLength` and `pattern` say nothing about a list, so a client could pass them by repeating a field, and
//! the application might read the first value or the last. Such a value has to be allowed: by a schema that names its type,
//! or that asks for nothing.

use serde_json::{Map, Value};

/// What a schema says of the shapes of fields.
#[derive(Default)]
pub(crate) struct Shapes {
    named: Vec<(String, Allowed)>,
    /// Of names that `patternProperties` or `additionalProperties` are about.
    others: Option<Allowed>,
}

#[derive(Clone, Copy, Default)]
struct Allowed {
    lists: bool,
    booleans: bool,
}

impl Allowed {
    fn or(self, other: Allowed) -> Allowed {
        Allowed { lists: self.lists || other.lists, booleans: self.booleans || other.booleans }
    }
}

/// Keywords that ask for nothing.
const REMARKS: [&str; 6] = ["title", "description", "default", "examples", "$comment", "$id"];

/// References within references that are followed.
const MAX_DEPTH: usize = 16;

impl Shapes {
    pub(super) fn of(schema: &Value) -> Shapes {
        let mut shapes = Shapes::default();
        shapes.collect(schema, schema);
        shapes
    }

    fn collect(&mut self, schema: &Value, root: &Value) {
        match schema {
            Value::Object(rules) => {
                let entries = |keyword: &str| rules.get(keyword).and_then(Value::as_object);
                for (name, rule) in entries("properties").into_iter().flatten() {
                    let allowed = allowed(rule, root, MAX_DEPTH);
                    match self.named.iter_mut().find(|(known, _)| known == name) {
                        Some((_, before)) => *before = before.or(allowed),
                        None => self.named.push((name.clone(), allowed)),
                    }
                }
                let patterns = entries("patternProperties").into_iter().flat_map(Map::values);
                for rule in patterns.chain(rules.get("additionalProperties")) {
                    let allowed = allowed(rule, root, MAX_DEPTH);
                    self.others = Some(self.others.unwrap_or_default().or(allowed));
                }
                rules.values().for_each(|rule| self.collect(rule, root));
            }
            Value::Array(rules) => rules.iter().for_each(|rule| self.collect(rule, root)),
            _ => {}
        }
    }

    /// Of the first field that the schema does not name, but whose name an upstream may read as one that it does, the reason.
    /// `is`: whether the schema's name finds the field; `same`: whether an upstream may take both for one.
    pub(crate) fn check_spelling(
        &self,
        fields: &Map<String, Value>,
        is: fn(&str, &str) -> bool,
        same: fn(&str, &str) -> bool,
    ) -> Result<(), String> {
        for name in fields.keys() {
            let alike = self.named.iter().find(|(known, _)| same(known, name));
            if let Some((known, _)) = alike
                && !self.named.iter().any(|(known, _)| is(known, name))
            {
                return Err(format!(
                    "property {known:?} validation failed: it is spelled {name:?}, which upstreams may read as {known:?}"
                ));
            }
        }
        Ok(())
    }

    /// Of the first value whose shape nothing allows, the reason. `same`: whether two names are one.
    pub(super) fn check(
        &self,
        fields: &Map<String, Value>,
        same: fn(&str, &str) -> bool,
    ) -> Result<(), String> {
        for (name, value) in fields {
            let (is_allowed, what, kind): (fn(Allowed) -> bool, _, _) = match value {
                Value::Array(_) => (|allowed| allowed.lists, "comes more than once", "array"),
                Value::Bool(_) => (|allowed| allowed.booleans, "has no value", "boolean"),
                _ => continue,
            };
            let mut named =
                self.named.iter().filter(|(known, _)| same(known, name)).map(|(_, it)| *it).peekable();
            let fits = match named.peek() {
                Some(_) => named.any(is_allowed),
                None => self.others.is_none_or(is_allowed),
            };
            if !fits {
                return Err(format!(
                    "property {name:?} validation failed: it {what}, and its schema does not allow the type {kind}"
                ));
            }
        }
        Ok(())
    }
}

/// What the schema of one value allows beside texts.
fn allowed(schema: &Value, root: &Value, depth: usize) -> Allowed {
    let all = Allowed { lists: true, booleans: true };
    let Value::Object(rules) = schema else {
        // `false` refuses by itself.
        return all;
    };
    if rules.keys().all(|keyword| REMARKS.contains(&keyword.as_str())) {
        return all;
    }
    if depth == 0 {
        return Allowed::default();
    }
    let named = |kind: &str| match rules.get("type") {
        Some(Value::String(name)) => name == kind,
        Some(Value::Array(names)) => names.iter().any(|name| name == kind),
        _ => false,
    };
    let mut sum = Allowed {
        lists: named("array") || rules.contains_key("items") || rules.contains_key("contains"),
        booleans: named("boolean"),
    };
    let referred =
        rules.get("$ref").and_then(Value::as_str).and_then(|to| root.pointer(to.strip_prefix('#')?));
    let parts =
        ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|name| rules.get(name)?.as_array()).flatten();
    let branches = ["then", "else"].into_iter().filter_map(|name| rules.get(name));
    for part in referred.into_iter().chain(parts).chain(branches).filter(|part| part.is_object()) {
        sum = sum.or(allowed(part, root, depth - 1));
    }
    sum
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_have_to_be_allowed() {
        let cases = [
            (json!({}), true, true),
            (json!({ "required": ["a"] }), true, true),
            (json!({ "properties": { "a": {} } }), true, true),
            (json!({ "properties": { "a": { "maxLength": 3 } } }), false, false),
            (json!({ "properties": { "a": { "type": "array" } } }), true, false),
            (json!({ "properties": { "a": { "items": { "maxLength": 3 } } } }), true, false),
            (json!({ "properties": { "a": { "type": ["string", "boolean"] } } }), false, true),
            (
                json!({ "properties": { "a": { "anyOf": [{ "type": "string" }, { "type": "array" }] } } }),
                true,
                false,
            ),
            (json!({ "allOf": [{ "properties": { "a": { "pattern": "^x" } } }] }), false, false),
            (json!({ "properties": { "a": { "$ref": "#/x" } }, "x": { "type": "array" } }), true, false),
            (json!({ "properties": { "a": { "$ref": "#/x" } }, "x": { "$ref": "#/x" } }), false, false),
            (json!({ "properties": { "b": { "maxLength": 3 } } }), true, true),
            (json!({ "additionalProperties": { "maxLength": 3 } }), false, false),
            (json!({ "additionalProperties": true }), true, true),
            (json!({ "patternProperties": { "^a": { "type": "array" } } }), true, false),
        ];
        for (schema, lists, booleans) in cases {
            let shapes = Shapes::of(&schema);
            let fits = |value: Value| {
                let fields = [("a".to_owned(), value)].into_iter().collect();
                shapes.check(&fields, |one, other| one == other).is_ok()
            };
            assert_eq!((fits(json!(["1", "2"])), fits(json!(true))), (lists, booleans), "{schema}");
            assert!(fits(json!("text")), "{schema}");
        }
    }
}
