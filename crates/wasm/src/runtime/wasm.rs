//! A module that works, with what its instances are made of.

use parking_lot::Mutex;
use wasmtime::InstancePre;

use super::{
    instance::{Conf, Instance, Limits},
    module,
    state::State,
};
use crate::settings::{RequestPhase, WasmPlugin, WasmSettings};

/// A plugin whose module works. It stays as long as the process.
pub(super) struct Wasm {
    pub name: &'static str,
    /// From 0.
    pub number: usize,
    pub process_bodies: bool,
    pub has: Has,
    pub phase: RequestPhase,
    module: InstancePre<State>,
    limits: Limits,
    /// The one that configurations are looked at with, until a worker takes it.
    spare: Mutex<Option<Instance>>,
}

/// The callbacks that decide in which phases something runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Has {
    pub request_body: bool,
    pub request_trailers: bool,
    pub response_headers: bool,
    pub response_body: bool,
    pub response_trailers: bool,
}

impl Wasm {
    /// Compiles a module, and starts it once to see whether it works.
    pub(super) fn new(
        name: &'static str,
        number: usize,
        plugin: &WasmPlugin,
        settings: &WasmSettings,
        bytes: &[u8],
    ) -> Result<&'static Wasm, String> {
        let limits = Limits {
            time: settings.time_limit,
            instance_memory: settings.instance_memory,
            memory: settings.memory,
        };
        let module = module::compile(bytes)?;
        let first = Instance::new(name, &module, limits)?;
        let exports = &first.exports;
        let has = Has {
            request_body: exports.request_body.is_some(),
            request_trailers: exports.request_trailers.is_some(),
            response_headers: exports.response_headers.is_some(),
            response_body: exports.response_body.is_some(),
            response_trailers: exports.response_trailers.is_some(),
        };
        Ok(Box::leak(Box::new(Wasm {
            name,
            number,
            process_bodies: plugin.process_bodies,
            has,
            phase: plugin.phase,
            module,
            limits,
            spare: Mutex::new(Some(first)),
        })))
    }

    /// An instance without requests. Not for a worker: it may take long.
    pub(super) fn instance(&self) -> Result<Instance, String> {
        let spare = self.spare.lock().take();
        match spare {
            Some(mut spare) => {
                spare.store.data_mut().is_trial = false;
                Ok(spare)
            }
            None => Instance::new(self.name, &self.module, self.limits),
        }
    }

    /// Whether the module takes a configuration.
    pub(super) fn try_conf(&self, conf: &Conf) -> Result<(), String> {
        let mut instance = self.instance()?;
        instance.store.data_mut().is_trial = true;
        let taken = instance.prepare(conf);
        instance.forget(conf.serial);
        drop(instance.wishes());
        if !instance.is_dead {
            *self.spare.lock() = Some(instance);
        }
        taken.map(drop)
    }
}
