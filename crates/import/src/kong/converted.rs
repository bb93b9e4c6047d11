//! What the converters of all plugins share.

use serde_json::Value;
use tidegate_config::yaml::{Content, Node};

use super::{entities::Plugin, node::key_text};

/// What a converter makes of a plugin. `None`: nothing, and the report says why.
pub(crate) type Converted = Option<Vec<(&'static str, Value)>>;

/// What a converter may need to know about the place of the plugin.
#[derive(Clone, Copy, Default)]
pub(crate) struct PluginContext<'a> {
    /// With what it belongs to.
    pub plugin: Option<&'a Plugin<'a>>,
    /// Of the route at hand.
    pub service: Option<&'a Node>,
    /// A plugin beside it authenticates consumers.
    pub authenticates: bool,
    /// It stands on a consumer or a group of them.
    pub(crate) on_consumer: bool,
}

/// A secret that the gateway cannot ask for.
pub(crate) fn vault_reference(node: &Node) -> Option<String> {
    match &node.content {
        Content::Scalar { text, .. } => text.contains("{vault://").then(|| text.clone()),
        Content::List(items) => items.iter().find_map(vault_reference),
        Content::Map(entries) => entries.iter().find_map(|entry| vault_reference(&entry.value)),
    }
}

/// A filter chain may be named like a plugin, but is not one.
pub(super) fn name_of(node: &Node) -> String {
    let name = key_text(node, "name").unwrap_or_default();
    if node.get("filters").is_some() { format!("filter chain {name}").trim_end().to_owned() } else { name }
}
