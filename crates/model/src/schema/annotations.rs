//! Names in user-written schemas that no draft has. To the checker they are annotations, but mostly they are typing errors.

use serde_json::{Map, Value};

use super::compile::FORMATS;
use crate::nearest::hint;

/// The most remarks about one schema.
const MOST: usize = 8;

/// Keywords that describe a value and check nothing, in JSON Schema and in OpenAPI; and `const`, which takes any value.
const ANNOTATIONS: [&str; 21] = [
    "const",
    "title",
    "description",
    "default",
    "example",
    "examples",
    "$id",
    "id",
    "$comment",
    "$anchor",
    "$vocabulary",
    "readOnly",
    "writeOnly",
    "deprecated",
    "contentEncoding",
    "contentMediaType",
    "contentSchema",
    "externalDocs",
    "discriminator",
    "xml",
    "links",
];

/// Adds the names among `rules` that look like keywords but check nothing.
pub(super) fn find_unknown_keywords<'a>(
    rules: &Map<String, Value>,
    at: &str,
    keywords: impl Iterator<Item = &'a str> + Clone,
    found: &mut Vec<String>,
) {
    for name in rules.keys() {
        let is_known = ANNOTATIONS.contains(&name.as_str()) || name.starts_with("x-");
        if is_known || keywords.clone().any(|keyword| keyword == name) {
            continue;
        }
        if found.len() < MOST {
            let hint = hint(name, keywords.clone());
            found.push(format!("{at}: {name:?} is not a keyword of JSON Schema and checks nothing{hint}"));
        }
    }
}

/// Keywords that look at values of one type only.
const OF_TYPES: [(&[&str], &[&str]); 4] = [
    (&["string"], &["minLength", "maxLength", "pattern"]),
    (&["array"], &["items", "additionalItems", "contains", "minItems", "maxItems", "uniqueItems"]),
    (
        &["object"],
        &[
            "properties",
            "patternProperties",
            "additionalProperties",
            "propertyNames",
            "required",
            "minProperties",
            "maxProperties",
            "dependencies",
        ],
    ),
    (&["number", "integer"], &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"]),
];

/// Adds the keywords among `rules` that look at no value of the type beside them.
pub(super) fn find_keywords_of_other_types(rules: &Map<String, Value>, at: &str, found: &mut Vec<String>) {
    let Some(own) = rules.get("type").and_then(Value::as_str) else { return };
    let others = OF_TYPES.iter().filter(|(types, _)| !types.contains(&own));
    for name in others.flat_map(|(_, keywords)| *keywords).filter(|name| rules.contains_key(**name)) {
        if found.len() < MOST {
            found.push(format!("{at}: {name:?} has no effect beside type {own}"));
        }
    }
}

/// Formats of OpenAPI that say how a value is written or shown.
const NOTES: [&str; 7] = ["int32", "int64", "float", "double", "byte", "binary", "password"];

/// Adds a format that is not checked: mostly a typing error.
pub(super) fn find_unknown_formats(rules: &Map<String, Value>, at: &str, found: &mut Vec<String>) {
    let Some(name) = rules.get("format").and_then(Value::as_str) else { return };
    let is_known = FORMATS.contains(&name) || NOTES.contains(&name);
    if !is_known && found.len() < MOST {
        found.push(format!("{at}: format {name:?} checks nothing{}", hint(name, FORMATS)));
    }
}
