//! What is read of any entity.

use tidegate_config::yaml::Node;

use crate::fields;

pub(super) fn children<'a>(node: &'a Node, key: &str) -> &'a [Node] {
    node.get(key).map(fields::list).unwrap_or_default()
}

pub(super) fn key_text(node: &Node, key: &str) -> Option<String> {
    node.get(key).and_then(fields::text)
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
