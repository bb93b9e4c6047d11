//! Plugins that show what they were built of: configuration, metadata, proto and upstreams.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use parking_lot::Mutex;
use serde_json::Value;
use tidegate_plugin_api::{BuildContext, FilterFunction, LuaCompiler, Phases, Plugin, PluginDef, Request};

use crate::{describe, keys};

/// What a [`Probe`] was built of, by its address.
static BUILT: LazyLock<Mutex<HashMap<usize, String>>> = LazyLock::new(Mutex::default);

/// One byte, so that each has an address of its own.
struct Probe(#[allow(dead_code)] u8);

impl Plugin for Probe {}

impl Drop for Probe {
    fn drop(&mut self) {
        BUILT.lock().remove(&std::ptr::from_ref(self).addr());
    }
}

/// What the plugin was built of, if it is one of these.
pub(crate) fn built(plugin: &Arc<dyn Plugin>) -> String {
    BUILT.lock().get(&Arc::as_ptr(plugin).cast::<u8>().addr()).cloned().unwrap_or_default()
}

fn probe(text: String) -> Arc<dyn Plugin> {
    let probe: Arc<dyn Plugin> = Arc::new(Probe(0));
    BUILT.lock().insert(Arc::as_ptr(&probe).cast::<u8>().addr(), text);
    probe
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    if conf.get("is_refused").is_some() {
        return Err("it says so itself".to_owned());
    }
    let upstreams: Vec<String> = context.upstreams.iter().map(|handle| describe::upstream(handle)).collect();
    let metadata = context.metadata.map(Value::to_string);
    Ok(probe(format!("{} {metadata:?} {:?} {upstreams:?}", keys::shown(conf), context.proto)))
}

fn upstreams(conf: &Value) -> Vec<Cow<'_, Value>> {
    conf.get("upstreams").and_then(Value::as_array).into_iter().flatten().map(Cow::Borrowed).collect()
}

const METADATA: &str = r#"{"type": "object", "properties": {
    "note": {"type": "string", "enum": ["one", "two"]}, "more": {"type": "string", "default": "of it"}}}"#;

const PROBE: PluginDef = PluginDef {
    name: "probe",
    priority: 5,
    metadata_schema: Some(METADATA),
    encrypt_fields: &["password"],
    phases: Phases::LOG,
    guards: false,
    build,
    inline_upstreams: Some(upstreams),
    ..PluginDef::DEFAULT
};

/// Those of the program, and these.
pub(crate) fn plugins() -> Vec<&'static PluginDef> {
    static OPEN: PluginDef = PROBE;
    static GUARD: PluginDef = PluginDef { name: "probe-guard", guards: true, priority: 6, ..PROBE };
    tidegate_plugins::registry::PLUGINS.iter().copied().chain([&OPEN, &GUARD]).collect()
}

/// Compiles what does not contain "bad".
pub(crate) struct Scripts;

struct Passes;

impl FilterFunction for Passes {
    fn matches(&self, _: &Request) -> bool {
        true
    }
}

fn checked(source: &str) -> Result<(), String> {
    if source.contains("bad") { Err(format!("cannot compile {source}")) } else { Ok(()) }
}

impl LuaCompiler for Scripts {
    fn filter(&self, source: &str) -> Result<Arc<dyn FilterFunction>, String> {
        checked(source).map(|()| -> Arc<dyn FilterFunction> { Arc::new(Passes) })
    }

    fn pre_function(&self, source: &str, _: &Value) -> Result<Arc<dyn Plugin>, String> {
        checked(source).map(|()| probe(source.to_owned()))
    }

    fn script(&self, source: &str) -> Result<Arc<dyn Plugin>, String> {
        checked(source).map(|()| probe(source.to_owned()))
    }

    fn script_remarks(&self, _: &str) -> Vec<String> {
        Vec::new()
    }
}
