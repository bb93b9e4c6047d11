//! A compiled module, and the functions it has to offer.

use std::{fs, path::Path};

use wasmtime::{
    AsContextMut, ExternType, Instance, InstancePre, Linker, Module, Store, TypedFunc, WasmParams,
    WasmResults,
};

use super::{engine, host, names, state::State};

/// The bytes of one module.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// The versions of the interface that are spoken. A module has a function with such a name, which is never called.
const VERSIONS: [&str; 2] = ["proxy_abi_version_0_2_1", "proxy_abi_version_0_2_0"];

/// Reads a module's file.
pub(super) fn read(file: &Path) -> Result<Vec<u8>, String> {
    let read = || -> Result<Vec<u8>, String> {
        let metadata = fs::metadata(file).map_err(|error| error.to_string())?;
        if !metadata.is_file() {
            return Err("it is not a regular file".to_owned());
        }
        if metadata.len() > MAX_FILE_BYTES {
            return Err(format!("it has {} bytes, at most {MAX_FILE_BYTES} are read", metadata.len()));
        }
        fs::read(file).map_err(|error| error.to_string())
    };
    read().map_err(|reason| format!("{}: {reason}", file.display()))
}

/// Compiles a module and connects it to the functions of the gateway.
pub(super) fn compile(bytes: &[u8]) -> Result<InstancePre<State>, String> {
    let engine = engine::engine()?;
    let module = Module::new(engine, bytes).map_err(|error| one_line(&error))?;
    let exports = |name: &str| module.get_export(name);
    if !VERSIONS.iter().any(|version| exports(version).is_some()) {
        let other =
            module.exports().map(|export| export.name()).find(|name| name.starts_with("proxy_abi_version_"));
        return Err(match other {
            Some(other) => format!("it speaks {other}, and the gateway {}", VERSIONS.join(", ")),
            None => format!("it is not a module of proxy-wasm: it exports none of {}", VERSIONS.join(", ")),
        });
    }
    if !matches!(exports("memory"), Some(ExternType::Memory(_))) {
        return Err("it exports no memory".to_owned());
    }
    let mut linker = Linker::new(engine);
    host::install(&mut linker).map_err(|error| format!("{error:#}"))?;
    host::install_absent(&mut linker, &module)?;
    names::check_callbacks(&module)?;
    linker.instantiate_pre(&module).map_err(|error| format!("{error:#}"))
}

/// Reasons of the parser may have several lines.
fn one_line(error: &wasmtime::Error) -> String {
    format!("{error:#}").split_whitespace().collect::<Vec<_>>().join(" ")
}

type Three = TypedFunc<(u32, u32, u32), u32>;

/// The callbacks of an instance. One that a module does not have is not called.
pub(super) struct Exports {
    pub allocate: Option<TypedFunc<u32, u32>>,
    pub initialize: Option<TypedFunc<(), ()>>,
    pub main: Option<TypedFunc<(u32, u32), u32>>,
    pub start: Option<TypedFunc<(), ()>>,
    pub context_create: Option<TypedFunc<(u32, u32), ()>>,
    pub vm_start: Option<TypedFunc<(u32, u32), u32>>,
    pub configure: Option<TypedFunc<(u32, u32), u32>>,
    pub request_headers: Option<Three>,
    pub request_body: Option<Three>,
    pub request_trailers: Option<TypedFunc<(u32, u32), u32>>,
    pub response_headers: Option<Three>,
    pub response_body: Option<Three>,
    pub response_trailers: Option<TypedFunc<(u32, u32), u32>>,
    pub done: Option<TypedFunc<u32, u32>>,
    pub log: Option<TypedFunc<u32, ()>>,
    pub delete: Option<TypedFunc<u32, ()>>,
    pub tick: Option<TypedFunc<u32, ()>>,
    pub queue_ready: Option<TypedFunc<(u32, u32), ()>>,
    pub call_response: Option<TypedFunc<(u32, u32, u32, u32, u32), ()>>,
}

impl Exports {
    /// The error names a function whose type is not that of the interface.
    pub(super) fn of(instance: &Instance, store: &mut Store<State>) -> Result<Exports, String> {
        Ok(Exports {
            allocate: match function(instance, store, "proxy_on_memory_allocate")? {
                Some(function) => Some(function),
                None => function(instance, store, "malloc")?,
            },
            initialize: function(instance, store, "_initialize")?,
            main: function(instance, store, "main").unwrap_or(None),
            start: function(instance, store, "_start")?,
            context_create: function(instance, store, "proxy_on_context_create")?,
            vm_start: function(instance, store, "proxy_on_vm_start")?,
            configure: function(instance, store, "proxy_on_configure")?,
            request_headers: function(instance, store, "proxy_on_request_headers")?,
            request_body: function(instance, store, "proxy_on_request_body")?,
            request_trailers: function(instance, store, "proxy_on_request_trailers")?,
            response_headers: function(instance, store, "proxy_on_response_headers")?,
            response_body: function(instance, store, "proxy_on_response_body")?,
            response_trailers: function(instance, store, "proxy_on_response_trailers")?,
            done: function(instance, store, "proxy_on_done")?,
            log: function(instance, store, "proxy_on_log")?,
            delete: function(instance, store, "proxy_on_delete")?,
            tick: function(instance, store, "proxy_on_tick")?,
            queue_ready: function(instance, store, "proxy_on_queue_ready")?,
            call_response: function(instance, store, "proxy_on_http_call_response")?,
        })
    }
}

fn function<P: WasmParams, R: WasmResults>(
    instance: &Instance,
    store: &mut Store<State>,
    name: &str,
) -> Result<Option<TypedFunc<P, R>>, String> {
    let Some(found) = instance.get_func(store.as_context_mut(), name) else { return Ok(None) };
    found.typed(&*store).map(Some).map_err(|error| format!("its function {name} has another type: {error:#}"))
}
