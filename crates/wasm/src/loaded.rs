//! What becomes of a plugin of config.yaml.

use tidegate_plugin_api::PluginDef;

/// A plugin that was looked at: its declaration, and why it refuses what it is configured for.
pub struct Loaded {
    /// Stays as long as the process.
    pub def: &'static PluginDef,
    /// `None`: it works.
    pub fault: Option<String>,
}

/// As in APISIX.
pub(crate) const SCHEMA: &str = r#"{"type":"object","properties":{"conf":{"oneOf":[{"type":"object","minProperties":1},{"type":"string","minLength":1}]}},"required":["conf"]}"#;
