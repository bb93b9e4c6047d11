//! In place of the runtime, in a build without it.

#![allow(missing_docs, reason = "documented where the feature is on")]

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{SchemaKind, catalog::built_without};
use tidegate_plugin_api::{
    BuildContext, Phases, Plugin, PluginDef, PluginFile, Reply, Request, Step, definition::ConsumerKey,
};
use tidegate_telemetry::metrics::TextWriter;

use crate::{
    loaded::{Loaded, SCHEMA},
    settings::{WasmPlugin, WasmSettings},
};

struct Absent;

/// Each of the plugins refuses what it is configured for.
pub fn load(plugin: &WasmPlugin, _: &WasmSettings) -> Loaded {
    let name: &'static str = Box::leak(plugin.name.clone().into_boxed_str());
    let def = PluginDef {
        name,
        priority: plugin.priority,
        on_by_default: false,
        schema: SCHEMA,
        phases: Phases::REWRITE,
        file: Some(&Absent),
        ..PluginDef::DEFAULT
    };
    Loaded { def: Box::leak(Box::new(def)), fault: Some(built_without("wasm")) }
}

pub fn unchanged(_: &WasmSettings) -> bool {
    true
}

pub fn collect_metrics(_: &mut TextWriter, _: &dyn Fn(&str) -> String) {}

impl PluginFile for Absent {
    fn check(&self, _: &Value, _: SchemaKind) -> Result<(), String> {
        Err(format!("the plugin cannot be loaded: {}", built_without("wasm")))
    }

    fn build(&self, _: &'static PluginDef, _: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
        Err(format!("the plugin cannot be loaded: {}", built_without("wasm")))
    }

    fn remarks(&self) -> &[String] {
        &[]
    }

    fn has_rewrite(&self) -> bool {
        false
    }

    fn consumer(&self) -> Option<fn(&Value, &PluginDef) -> ConsumerKey> {
        None
    }

    fn answer<'a>(&'a self, _: usize, _: &'a mut Request) -> Step<'a> {
        Step::reply(Reply::page(404))
    }

    fn is_listed_elsewhere(&self) -> bool {
        true
    }
}
