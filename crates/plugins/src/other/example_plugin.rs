//! A plugin to start from: says in the error log which phase runs, and can send requests to another node.

use std::sync::Arc;

use serde_json::{Value, json};
use tidegate_plugin_api::{BodyChunk, BuildContext, ControlPath, Phases, Plugin, PluginDef, Request, Step};
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
    control: &[ControlPath { uri: "/v1/plugin/example-plugin/hello", handler: hello }],
    build,
    ..PluginDef::DEFAULT
};

struct Example {
    conf: String,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(Example { conf: conf.to_string() }))
}

/// With the argument `json` it is JSON.
fn hello(query: &str) -> Value {
    match query.split('&').any(|pair| pair.split('=').next() == Some("json")) {
        true => json!({"msg": "world"}),
        false => "world\n".into(),
    }
}

impl Example {
    fn log_phase(&self, phase: &str) {
        let conf = &self.conf;
        error_log::log(error_log::Level::Warn, format_args!("plugin {phase} phase, conf: {conf}"));
    }
}

impl Plugin for Example {
    fn rewrite<'a>(&'a self, _: &'a mut Request) -> Step<'a> {
        self.log_phase("rewrite");
        Step::Next
    }

    fn access<'a>(&'a self, _: &'a mut Request) -> Step<'a> {
        self.log_phase("access");
        Step::Next
    }

    fn header_filter(&self, _: &mut Request) {
        self.log_phase("header_filter");
    }

    fn body_filter(&self, _: &mut Request, _: &mut BodyChunk) {
        self.log_phase("body_filter");
    }

    fn log(&self, _: &mut Request) {
        self.log_phase("log");
    }
}
