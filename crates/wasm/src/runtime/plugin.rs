//! A plugin of config.yaml: its module, its declaration, and its configurations.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use tidegate_model::SchemaKind;
use tidegate_plugin_api::{
    BodyChunk, BuildContext, Foresight, Phases, Plugin, PluginDef, PluginFile, Reply, Request, Step,
    WholeBody, Why, definition::ConsumerKey,
};

use super::{filter, instance::Conf, module, request, wasm::Wasm};
use crate::{
    loaded::{Loaded, SCHEMA},
    settings::{RequestPhase, WasmPlugin, WasmSettings},
};

/// What was read of each file.
static READ: Mutex<Vec<(WasmPlugin, u64)>> = Mutex::new(Vec::new());

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    hasher.finish()
}

/// Reads and compiles a plugin's module, and starts it once to see whether it works. One that does not refuses what it is configured
/// for.
pub fn load(plugin: &WasmPlugin, settings: &WasmSettings) -> Loaded {
    let name: &'static str = Box::leak(plugin.name.clone().into_boxed_str());
    let number = {
        let mut read = READ.lock();
        read.push((plugin.clone(), 0));
        read.len() - 1
    };
    let found = module::read(&plugin.file).and_then(|bytes| {
        READ.lock()[number].1 = digest(&bytes);
        Wasm::new(name, number, plugin, settings, &bytes)
            .map_err(|reason| format!("{}: {reason}", plugin.file.display()))
    });
    let (wasm, fault) = match found {
        Ok(wasm) => (Some(wasm), None),
        Err(fault) => (None, Some(fault)),
    };
    let file: &'static InFile = Box::leak(Box::new(InFile { wasm, fault: fault.clone() }));
    let request_phase = match plugin.phase {
        RequestPhase::Access => Phases::ACCESS,
        RequestPhase::Rewrite => Phases::REWRITE,
    };
    let late = Phases::HEADER_FILTER.and(Phases::BODY_FILTER).and(Phases::LOG);
    let def = PluginDef {
        name,
        priority: plugin.priority,
        on_by_default: false,
        schema: SCHEMA,
        phases: request_phase.and(late),
        file: Some(file),
        ..PluginDef::DEFAULT
    };
    Loaded { def: Box::leak(Box::new(def)), fault }
}

/// Whether the modules that this process has read are as they were.
pub fn unchanged(settings: &WasmSettings) -> bool {
    let read = READ.lock();
    read.len() == settings.plugins.len()
        && read.iter().zip(&settings.plugins).all(|((before, known), now)| {
            before == now && *known == module::read(&now.file).map_or(0, |bytes| digest(&bytes))
        })
}

/// What the catalog knows of a plugin.
struct InFile {
    wasm: Option<&'static Wasm>,
    fault: Option<String>,
}

impl InFile {
    fn usable(&self) -> Result<&'static Wasm, String> {
        self.wasm.ok_or_else(|| {
            format!("the plugin cannot be loaded: {}", self.fault.as_deref().unwrap_or("no module was read"))
        })
    }
}

/// As the module gets it: a text as it is, an object as JSON.
fn text_of(conf: &Value) -> Bytes {
    match conf.get("conf") {
        Some(Value::String(text)) => Bytes::from(text.clone()),
        Some(other) => Bytes::from(other.to_string()),
        None => Bytes::new(),
    }
}

fn conf_of(conf: &Value) -> Conf {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    Conf { serial: NEXT.fetch_add(1, Relaxed), text: text_of(conf), alive: Arc::new(()) }
}

impl PluginFile for InFile {
    fn check(&self, _: &Value, _: SchemaKind) -> Result<(), String> {
        self.usable().map(drop)
    }

    fn build(
        &self,
        _: &'static PluginDef,
        conf: &Value,
        _: &BuildContext,
    ) -> Result<Arc<dyn Plugin>, String> {
        let wasm = self.usable()?;
        let conf = conf_of(conf);
        wasm.try_conf(&conf)
            .map_err(|reason| format!("the module does not take the configuration: {reason}"))?;
        Ok(Arc::new(Configured { wasm, conf: Arc::new(conf) }))
    }

    fn remarks(&self) -> &[String] {
        &[]
    }

    fn has_rewrite(&self) -> bool {
        self.wasm.is_some_and(|wasm| wasm.phase == RequestPhase::Rewrite)
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

/// An instance of the snapshot.
struct Configured {
    wasm: &'static Wasm,
    conf: Arc<Conf>,
}

impl Plugin for Configured {
    fn phases(&self) -> Phases {
        let has = self.wasm.has;
        let request = match self.wasm.phase {
            RequestPhase::Access => Phases::ACCESS,
            RequestPhase::Rewrite => Phases::REWRITE,
        };
        let late = match has.response_headers || has.response_body || has.response_trailers {
            true => Phases::HEADER_FILTER.and(Phases::BODY_FILTER),
            false => Phases::NONE,
        };
        request.and(late).and(Phases::LOG)
    }

    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        request::run(self.wasm, &self.conf, request)
    }

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        request::run(self.wasm, &self.conf, request)
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Runs)
    }

    fn may_change_status(&self) -> bool {
        true
    }

    fn header_filter(&self, request: &mut Request) {
        filter::head(self.wasm, &self.conf, request);
    }

    fn filters_body(&self, request: &Request) -> bool {
        filter::takes_body(&self.conf, request)
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        filter::piece(self.wasm, &self.conf, request, chunk);
    }

    fn whole_body<'a>(&'a self, request: &'a mut Request) -> WholeBody<'a> {
        Box::pin(filter::whole(self.wasm, &self.conf, request))
    }

    fn log(&self, request: &mut Request) {
        filter::log(&self.conf, request);
    }
}
