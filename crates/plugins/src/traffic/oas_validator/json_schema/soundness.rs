//! Whether the schemas of a document can be checked: references lead somewhere in it, and patterns are ones.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{Dialect, Schemas};
use crate::common::regexes::Regex;

/// Objects and lists in each other.
const MOST_DEPTH: usize = 100;

/// Keywords whose members have names of the author.
const BY_NAME: [&str; 6] =
    ["properties", "patternProperties", "dependentSchemas", "dependentRequired", "$defs", "schemas"];

#[derive(Default)]
struct Found {
    patterns: HashMap<String, Regex>,
    anchors: HashMap<String, String>,
    references: Vec<String>,
    has_unevaluated: bool,
}

impl Schemas {
    /// Compiles what has to be: patterns and anchors. The error names what is not sound.
    pub(in crate::traffic::oas_validator) fn new(root: Value, dialect: Dialect) -> Result<Schemas, String> {
        let mut found = Found::default();
        found.visit(&root, &mut String::new(), 0, false)?;
        let Found { patterns, anchors, references, has_unevaluated } = found;
        let schemas = Schemas { root, dialect, patterns, anchors, has_unevaluated };
        for reference in references {
            if schemas.resolve(&reference).is_none() {
                return Err(format!("the reference {reference} leads nowhere in the document"));
            }
        }
        Ok(schemas)
    }
}

impl Found {
    /// `by_name`: the members are named by the author, and are not keywords.
    fn visit(
        &mut self,
        value: &Value,
        pointer: &mut String,
        depth: usize,
        by_name: bool,
    ) -> Result<(), String> {
        if depth > MOST_DEPTH {
            return Err("the document is nested too deeply".to_owned());
        }
        let length = pointer.len();
        match value {
            Value::Array(items) => {
                for (place, item) in items.iter().enumerate() {
                    pointer.push_str(&format!("/{place}"));
                    self.visit(item, pointer, depth + 1, false)?;
                    pointer.truncate(length);
                }
            }
            Value::Object(members) => {
                if !by_name {
                    self.collect_references(members, pointer)?;
                }
                for (name, member) in members.iter().filter(|(name, _)| by_name || !is_data(name)) {
                    pointer.push_str(&format!("/{}", name.replace('~', "~0").replace('/', "~1")));
                    self.visit(member, pointer, depth + 1, !by_name && BY_NAME.contains(&name.as_str()))?;
                    pointer.truncate(length);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn collect_references(&mut self, members: &Map<String, Value>, pointer: &str) -> Result<(), String> {
        let text = |name: &str| members.get(name).and_then(Value::as_str);
        for keyword in ["$ref", "$dynamicRef"] {
            self.references.extend(text(keyword).map(str::to_owned));
        }
        for keyword in ["$anchor", "$dynamicAnchor"] {
            if let Some(anchor) = text(keyword) {
                self.anchors.entry(anchor.to_owned()).or_insert_with(|| pointer.to_owned());
            }
        }
        self.has_unevaluated |=
            ["unevaluatedProperties", "unevaluatedItems"].iter().any(|name| members.contains_key(*name));
        let of_names = members.get("patternProperties").and_then(Value::as_object);
        let of_names = of_names.into_iter().flat_map(|patterns| patterns.keys().map(String::as_str));
        for pattern in text("pattern").into_iter().chain(of_names) {
            if !self.patterns.contains_key(pattern) {
                let regex = Regex::new(pattern, false).map_err(|reason| format!("{pointer}: {reason}"))?;
                self.patterns.insert(pattern.to_owned(), regex);
            }
        }
        Ok(())
    }
}

/// What stands there is not read.
fn is_data(name: &str) -> bool {
    matches!(name, "example" | "examples" | "default" | "enum" | "const") || name.starts_with("x-")
}
