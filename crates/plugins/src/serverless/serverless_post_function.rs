//! Runs Lua functions of the configuration after the other plugins.

use tidegate_plugin_api::PluginDef;

use super::function;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "serverless-post-function",
    priority: -2000,
    schema: include_str!("serverless_post_function.json"),
    build: |conf, _| function::build("serverless-post-function", conf),
    ..function::DEFINITION
};
