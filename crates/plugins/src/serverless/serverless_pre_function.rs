//! Runs Lua functions of the configuration before the other plugins.

use tidegate_plugin_api::PluginDef;

use super::function;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "serverless-pre-function",
    priority: 10000,
    schema: include_str!("serverless_pre_function.json"),
    build: |conf, _| function::build("serverless-pre-function", conf),
    ..function::DEFINITION
};
