//! The plugin runner that config.yaml names (`ext-plugin.cmd`).

use anyhow::Context;
use serde_json::Value;
use tidegate_config::Settings;
use tidegate_model::PluginCatalog;
use tidegate_plugin_api::Catalog;
use tidegate_plugins::Runner;

/// The plugins that ask it.
const PLUGINS: [&str; 3] = ["ext-plugin-pre-req", "ext-plugin-post-req", "ext-plugin-post-resp"];

/// `None`: there is none to start, or nothing asks it.
pub(super) fn start(settings: &Settings, catalog: &Catalog) -> anyhow::Result<Option<Runner>> {
    let command = settings.raw.pointer("/ext-plugin/cmd").and_then(Value::as_array);
    let command: Vec<String> =
        command.into_iter().flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect();
    if command.is_empty() || !PLUGINS.iter().any(|name| catalog.is_enabled(name)) {
        return Ok(None);
    }
    Runner::start(command).map(Some).context("cannot start the thread of the plugin runner")
}
