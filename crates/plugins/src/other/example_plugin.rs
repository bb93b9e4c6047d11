//! A plugin to start from: says in the error log which phase runs, and can send requests to another node.

use std::{borrow::Cow, sync::Arc};

use serde_json::{Value, json};
use tidegate_plugin_api::{
    BodyChunk, BuildContext, ControlPath, Foresight, Phases, Plugin, PluginDef, Request, Step, UpstreamHandle,
};
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
    inline_upstreams: Some(upstreams),
    ..PluginDef::DEFAULT
};

struct Example {
    conf: String,
    /// Of `ip`.
    upstream: Option<Arc<UpstreamHandle>>,
}

/// One node, instead of those of the route's upstream.
fn upstreams(conf: &Value) -> Vec<Cow<'_, Value>> {
    let Some(ip) = conf.get("ip") else { return Vec::new() };
    let mut node = json!({"host": ip, "weight": 1});
    if let (Some(port), Some(node)) = (conf.get("port"), node.as_object_mut()) {
        node.insert("port".to_owned(), port.clone());
    }
    vec![Cow::Owned(json!({"type": "roundrobin", "nodes": [node]}))]
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(Example { conf: conf.to_string(), upstream: context.upstreams.first().cloned() }))
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

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.log_phase("access");
        if self.upstream.is_some() {
            request.edits.upstream.clone_from(&self.upstream);
        }
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

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        if phase == Phases::ACCESS && self.upstream.is_some() {
            request.edits.upstream.clone_from(&self.upstream);
        }
        Foresight::Continues
    }
}
