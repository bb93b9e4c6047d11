//! What is read of any entity.

use serde_json::Value;
use tidegate_config::yaml::{Content, Node};

use crate::{
    fields,
    names::{folded, words, words_of_path},
};

pub(super) fn children<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).map(fields::list).unwrap_or_default()
}

pub(super) fn key_text(node: &Node, key: &str) -> Option<String> {
    node.get(key).and_then(fields::text)
}

/// Only what Kong takes for no: a text switches nothing off.
pub(crate) fn is_enabled(node: &Node) -> bool {
    let enabled = node.get("enabled").map(|enabled| &enabled.content);
    !matches!(enabled, Some(Content::Scalar { value: Value::Bool(false), .. }))
}

/// The name, else the id, else one that is made of what it says.
pub(super) fn name(node: &Node) -> String {
    let given = ["name", "username", "custom_id", "id"].iter().find_map(|key| key_text(node, key));
    given.unwrap_or_else(|| of_content(node))
}

/// The name a consumer has with us.
pub(super) fn username(consumer: &Node) -> String {
    let name = key_text(consumer, "username").unwrap_or_else(|| name(consumer));
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }).collect()
}

/// What says which requests an entity is for, or where it leads.
const CONTENT: [&str; 12] = [
    "paths",
    "hosts",
    "methods",
    "headers",
    "snis",
    "sources",
    "expression",
    "url",
    "protocol",
    "host",
    "port",
    "path",
];

/// `orders-1f3a`
fn of_content(node: &Node) -> String {
    let mut identity = String::new();
    for (key, value) in CONTENT.iter().filter_map(|key| Some((key, node.get(key)?))) {
        identity.push_str(key);
        identity.push('\n');
        flat(value, &mut identity);
    }
    let first = CONTENT.iter().find_map(|key| fields::texts(node.get(key)?).into_iter().next());
    let words = match first.as_deref() {
        Some(path) if path.starts_with(['/', '~']) => words_of_path(path),
        other => words(other.unwrap_or("unnamed")),
    };
    format!("{words}-{:04x}", folded(&identity))
}

fn flat(node: &Node, into: &mut String) {
    match &node.content {
        Content::Scalar { text, .. } => {
            into.push_str(text);
            into.push('\n');
        }
        Content::List(items) => items.iter().for_each(|item| flat(item, into)),
        Content::Map(entries) => entries.iter().for_each(|entry| {
            into.push_str(&entry.key);
            into.push('\n');
            flat(&entry.value, into);
        }),
    }
}

pub(super) fn label(kind: &str, node: &Node) -> String {
    format!("{kind} {}", name(node))
}
