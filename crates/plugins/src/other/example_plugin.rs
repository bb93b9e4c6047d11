//! A plugin to start from: says in the error log which phase runs, and can send requests to another node.

use std::sync::Arc;

use serde_json::Value;
use tidegate_plugin_api::{BodyChunk, BuildContext, Phases, Plugin, PluginDef, Request, Step};
use tidegate_telemetry::error_log;

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "example-plugin",
    version: 0.1,
    priority: 0,
    guards: false,
    schema: include_str!("example_plugin.json"),
    metadata_schema: Some(include_str!("example_plugin.metadata.json")),
    phases: Phases::REWRITE
        .and(Phases::ACCESS)
        .and(Phases::HEADER_FILTER)
        .and(Phases::BODY_FILTER)
        .and(Phases::LOG),
    build,
    ..PluginDef::DEFAULT
};

struct Example {
    conf: String,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(Example { conf: conf.to_string() }))
}

impl Example {
    fn say(&self, phase: &str) {
        let conf = &self.conf;
        error_log::log(error_log::Level::Warn, format_args!("plugin {phase} phase, conf: {conf}"));
    }
}

impl Plugin for Example {
    fn rewrite<'a>(&'a self, _: &'a mut Request) -> Step<'a> {
        self.say("rewrite");
        Step::Next
    }

    fn access<'a>(&'a self, _: &'a mut Request) -> Step<'a> {
        self.say("access");
        Step::Next
    }

    fn header_filter(&self, _: &mut Request) {
        self.say("header_filter");
    }

    fn body_filter(&self, _: &mut Request, _: &mut BodyChunk) {
        self.say("body_filter");
    }

    fn log(&self, _: &mut Request) {
        self.say("log");
    }
}
