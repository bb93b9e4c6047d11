//! What is read of any entity.

use serde_json::Value;
use tidegate_config::yaml::{Content, Node};

use crate::fields;

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

/// The name, else the id, else the line.
pub(super) fn name(node: &Node) -> String {
    ["name", "username", "custom_id", "id"]
        .iter()
        .find_map(|key| key_text(node, key))
        .unwrap_or_else(|| format!("line-{}", node.line))
}

pub(super) fn label(kind: &str, node: &Node) -> String {
    format!("{kind} {}", name(node))
}
