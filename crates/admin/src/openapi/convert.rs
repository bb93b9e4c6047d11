//! Schemas of APISIX's dialect (draft 4 to 7, patterns of PCRE) as JSON Schema 2020-12 with patterns of ECMA-262.

use serde_json::{Map, Value, json};
use tidegate_model::schemas::document;

use super::fragments::schema;

/// The same schema in the newer dialect. `plugins` names the component for maps of plugins.
pub(super) fn modern(old: &Value, plugins: &str) -> Value {
    let Value::Object(fields) = old else { return old.clone() };
    let mut new = Map::new();
    for (name, value) in fields {
        match (name.as_str(), value) {
            // What the gateway does with fields, not what they may be.
            ("encrypt_fields" | "$comment", _) => {}
            // Common tools do not know these classes.
            ("pattern", Value::String(pattern)) if pattern.contains("\\p{") => {
                new.insert("$comment".to_owned(), json!(format!("pattern: {pattern}")));
            }
            ("pattern", Value::String(pattern)) => {
                new.insert(name.clone(), json!(ecma(pattern)));
            }
            ("properties", Value::Object(properties)) => {
                let of = |(name, value): (&String, &Value)| (name.clone(), property(name, value, plugins));
                new.insert(name.clone(), Value::Object(properties.iter().map(of).collect()));
            }
            ("patternProperties", Value::Object(properties)) => {
                let of = |(name, value): (&String, &Value)| (ecma(name), modern(value, plugins));
                new.insert(name.clone(), Value::Object(properties.iter().map(of).collect()));
            }
            ("dependencies", Value::Object(dependencies)) => depend(&mut new, dependencies, plugins),
            ("oneOf" | "anyOf" | "allOf", Value::Array(items)) => {
                new.insert(name.clone(), items.iter().map(|item| modern(item, plugins)).collect());
            }
            ("items" | "not" | "if" | "then" | "else" | "additionalProperties", _) => {
                new.insert(name.clone(), modern(value, plugins));
            }
            _ => {
                new.insert(name.clone(), value.clone());
            }
        }
    }
    // An empty table of Lua is both.
    if new.get("type") == Some(&json!("array")) && new.get("default") == Some(&json!({})) {
        new.insert("default".to_owned(), json!([]));
    }
    Value::Object(new)
}

fn property(name: &str, value: &Value, plugins: &str) -> Value {
    match name {
        "upstream" if document("upstream") == Some(value) => schema("Upstream"),
        "plugins" if *value == json!({"type": "object"}) => schema(plugins),
        _ => modern(value, plugins),
    }
}

fn depend(new: &mut Map<String, Value>, dependencies: &Map<String, Value>, plugins: &str) {
    let (mut required, mut schemas) = (Map::new(), Map::new());
    for (name, value) in dependencies {
        match value {
            Value::Array(_) => required.insert(name.clone(), value.clone()),
            _ => schemas.insert(name.clone(), modern(value, plugins)),
        };
    }
    for (name, fields) in [("dependentRequired", required), ("dependentSchemas", schemas)] {
        if !fields.is_empty() {
            new.insert(name.to_owned(), Value::Object(fields));
        }
    }
}

/// A pattern of PCRE as ECMA-262 reads it with the flag `u`: the ends of the text, and `-` inside of classes where no range
/// can be meant.
fn ecma(pattern: &str) -> String {
    let mut text = String::with_capacity(pattern.len() + 8);
    let mut letters = pattern.chars().peekable();
    // Inside of a class: what stands before the next letter.
    let mut class: Option<Before> = None;
    while let Some(letter) = letters.next() {
        match (letter, &mut class) {
            ('\\', inside) => {
                let escaped = letters.next();
                match escaped {
                    Some('A') => text.push('^'),
                    Some('z' | 'Z') => text.push('$'),
                    Some(other) => text.extend(['\\', other]),
                    None => text.push('\\'),
                }
                if let Some(before) = inside {
                    let is_set = matches!(escaped, Some('w' | 'W' | 'd' | 'D' | 's' | 'S' | 'p' | 'P'));
                    *before = if is_set { Before::NoRange } else { before.after_letter() };
                }
            }
            ('[', None) => {
                class = Some(Before::NoRange);
                text.push('[');
                if letters.peek() == Some(&'^') {
                    text.extend(letters.next());
                }
            }
            ('[', Some(before)) => {
                *before = before.after_letter();
                text.push_str("\\[");
            }
            (']', Some(_)) => {
                class = None;
                text.push(']');
            }
            ('-', Some(before)) => {
                let ends = letters.peek().is_none_or(|next| *next == ']');
                if matches!(before, Before::Letter) && !ends {
                    *before = Before::Dash;
                    text.push('-');
                } else {
                    *before = Before::NoRange;
                    text.push_str("\\-");
                }
            }
            (other, Some(before)) => {
                *before = before.after_letter();
                text.push(other);
            }
            (other, None) => text.push(other),
        }
    }
    text
}

/// What precedes a place in a class.
#[derive(Clone, Copy)]
enum Before {
    /// A letter that may begin a range.
    Letter,
    /// The dash of a range.
    Dash,
    /// The start, the end of a range, or a set such as `\d`.
    NoRange,
}

impl Before {
    fn after_letter(self) -> Before {
        if matches!(self, Before::Dash) { Before::NoRange } else { Before::Letter }
    }
}

/// What a stored object may look like: its fields without their rules, since secrets are encrypted or masked in it, and an
/// empty object of Lua may be an empty list.
pub(super) fn stored(old: &Value) -> Value {
    let mut new = Map::new();
    let kind = old.get("type").and_then(Value::as_str);
    match kind {
        Some("object" | "array") => drop(new.insert("type".to_owned(), json!(["object", "array"]))),
        Some(kind) if old.get("enum").is_none() => drop(new.insert("type".to_owned(), json!(kind))),
        _ => {}
    }
    if let Some(text) = old.get("description") {
        new.insert("description".to_owned(), text.clone());
    }
    let properties = old.get("properties").and_then(Value::as_object);
    if let Some(properties) = properties {
        let of = |(name, value): (&String, &Value)| (name.clone(), stored(value));
        new.insert("properties".to_owned(), Value::Object(properties.iter().map(of).collect()));
    }
    if let Some(items) = old.get("items").filter(|items| items.is_object()) {
        new.insert("items".to_owned(), stored(items));
    }
    Value::Object(new)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_ecma() {
        for (pcre, expected) in [
            ("^[a-zA-Z0-9-_.]+$", r"^[a-zA-Z0-9\-_.]+$"),
            (r"\A([\w]|[\w][\w@ .-]*[\w@.-]+)\z", r"^([\w]|[\w][\w@ .\-]*[\w@.\-]+)$"),
            (r"^[ -!#-[\]-~]+$", r"^[ -!#-\[\]-~]+$"),
            (r"[\da-zA-Z.-]+|\[[\da-fA-F:]+\]", r"[\da-zA-Z.\-]+|\[[\da-fA-F:]+\]"),
            ("^[^:]+$", "^[^:]+$"),
            (r"^[!#$%&'*+.^_`|~0-9A-Za-z-]+$", r"^[!#$%&'*+.^_`|~0-9A-Za-z\-]+$"),
        ] {
            assert_eq!(ecma(pcre), expected);
        }
    }

    #[test]
    fn dependencies_are_told_apart() {
        let old = json!({"dependencies": {"a": ["b"], "c": {"required": ["d"]}}});
        let new = json!({"dependentRequired": {"a": ["b"]}, "dependentSchemas": {"c": {"required": ["d"]}}});
        assert_eq!(modern(&old, "Plugins"), new);
    }
}
