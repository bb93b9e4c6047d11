//! Plugins in files: what a file declares, and its instances.

mod declared;
mod remarks;

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::SchemaKind;
use tidegate_plugin_api::{
    BodyChunk, BuildContext, Foresight, Phases, Plugin, PluginDef, PluginFile, Reply, Request, Step, Why,
    definition::ConsumerKey,
};

use self::{declared::Declared, remarks::Started};
use super::{
    api, chunk, json, phases,
    program::{InFile, Phase, Program},
    vm::{self, Vm},
};
use crate::lua_files::{Modules, module_of};

/// Calls that wait: a plugin whose modules have one always runs as a coroutine, others where the request has a body.
const WAITS: [&str; 2] = ["sleep", "resty.http"];
/// The most that a body filter gets at once.
const BODY_STEP: usize = 256 << 10;

/// A plugin of the user's.
struct LuaFile {
    name: &'static str,
    /// Why it cannot be used.
    fault: Option<String>,
    waits: bool,
    phases: Phases,
    /// Consumers are found by their configurations of it.
    identifies: bool,
    apis: Vec<Program>,
    /// What of it does nothing.
    remarks: Vec<String>,
    /// What a message about its function `check_schema` begins with.
    place_of_check: String,
}

/// Makes a plugin of its module, which has been read, and says what is wrong with it. One that cannot be loaded refuses what it is
/// configured for. The declarations stay as long as the process.
pub(crate) fn declare(
    name: &str,
    modules: Result<&Modules, String>,
) -> (Option<&'static PluginDef>, Option<String>) {
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let found = modules.and_then(|modules| {
        let declared = vm::vm().and_then(|vm| load(&vm, name, modules));
        let waits = modules.reached(&module_of(name)).iter().any(|module| {
            WAITS.iter().any(|word| memchr::memmem::find(&module.text, word.as_bytes()).is_some())
        });
        Ok((declared?, waits, remarks::place_of_check(name, modules)))
    });
    match found {
        Ok(((declared, remarks), waits, place_of_check)) => {
            let file = LuaFile {
                name,
                fault: None,
                waits,
                phases: declared.phases,
                identifies: declared.identifies,
                apis: (0..declared.apis.len()).map(|number| api_program(name, number, waits)).collect(),
                remarks,
                place_of_check,
            };
            (Some(declared.leak(name, Box::leak(Box::new(file)))), None)
        }
        Err(fault) => {
            let file = LuaFile {
                name,
                fault: Some(fault.clone()),
                waits: false,
                phases: Phases::NONE,
                identifies: false,
                apis: Vec::new(),
                remarks: Vec::new(),
                place_of_check: String::new(),
            };
            let file: &'static LuaFile = Box::leak(Box::new(file));
            // Which fields it has is not known.
            let schema = r#"{"type":"object","additionalProperties":true}"#;
            let def =
                PluginDef { name, file: Some(file), phases: Phases::REWRITE, schema, ..PluginDef::DEFAULT };
            (Some(Box::leak(Box::new(def))), Some(fault))
        }
    }
}

fn api_program(name: &'static str, number: usize, waits: bool) -> Program {
    Program::of_file(
        name,
        Value::Null,
        InFile { owner: None, metadata: None, waits, phases: Phases::NONE, api: Some(number) },
    )
}

/// Loads the file, reads what it declares, starts it as a worker will, and says what of it does nothing.
fn load(vm: &Vm, name: &'static str, modules: &Modules) -> Result<(Declared, Vec<String>), String> {
    let load = || -> mlua::Result<Result<(Declared, Vec<String>), String>> {
        let module = vm.load_plugin(name)?;
        // The start gives it the name by which it is used.
        let own_name = module.raw_get::<Option<String>>("name").unwrap_or_default();
        let before = phases::running(&module);
        vm.start_plugin(&module, name)?;
        Ok(Declared::of(vm, &module).and_then(|declared| {
            let started = Started { own_name, before, module: &module, declared: &declared };
            let remarks = remarks::of(name, modules, started)?;
            Ok((declared, remarks))
        }))
    };
    let loaded = load().map_err(|error| chunk::message(&error)).flatten();
    loaded.map_err(|reason| remarks::fault(name, modules, reason))
}

impl LuaFile {
    fn usable(&self) -> Result<(), String> {
        match &self.fault {
            Some(fault) => Err(format!("the plugin cannot be loaded: {fault}")),
            None => Ok(()),
        }
    }

    fn check_in_lua(&self, conf: &Value, kind: SchemaKind) -> Result<(), String> {
        let vm = vm::vm()?;
        let check = || -> mlua::Result<Result<(), String>> {
            let module = vm.plugin(self.name)?;
            let Some(check) = phases::function(&module, "check_schema")? else { return Ok(Ok(())) };
            let kind = match kind {
                SchemaKind::Plugin => mlua::Value::Nil,
                SchemaKind::Consumer => mlua::Value::Integer(1),
                SchemaKind::Metadata => mlua::Value::Integer(2),
            };
            let conf = json::to_lua(&vm.lua, conf)?;
            let (ok, reason): (mlua::Value, mlua::Value) = vm.call_file(check, (conf, kind))?;
            if !matches!(ok, mlua::Value::Nil | mlua::Value::Boolean(false)) {
                return Ok(Ok(()));
            }
            if reason.is_nil() {
                let returned = if ok.is_nil() { "nothing" } else { "false without a reason" };
                let place = &self.place_of_check;
                return Ok(Err(format!(
                    "{place}check_schema returned {returned}; it should return true, or false and a reason"
                )));
            }
            let mut text = Vec::new();
            api::append(&reason, &mut text, 0)?;
            Ok(Err(String::from_utf8_lossy(&text).into_owned()))
        };
        let checked = check().map_err(|error| format!("check_schema failed: {}", chunk::message(&error)));
        vm::forget_checked();
        checked.flatten()
    }
}

impl PluginFile for LuaFile {
    fn check(&self, conf: &Value, kind: SchemaKind) -> Result<(), String> {
        self.usable()?;
        self.check_in_lua(conf, kind)
    }

    fn build(
        &self,
        def: &'static PluginDef,
        conf: &Value,
        context: &BuildContext,
    ) -> Result<Arc<dyn Plugin>, String> {
        self.usable()?;
        let file = InFile {
            owner: Some(context.owner.clone()),
            metadata: context.metadata.cloned(),
            waits: self.waits,
            phases: self.phases,
            api: None,
        };
        let program = Program::of_file(self.name, conf.clone(), file);
        Ok(Arc::new(Instance { program, phases: def.phases }))
    }

    fn remarks(&self) -> &[String] {
        &self.remarks
    }

    fn has_rewrite(&self) -> bool {
        self.phases.contains(Phases::REWRITE)
    }

    fn consumer(&self) -> Option<fn(&Value, &PluginDef) -> ConsumerKey> {
        self.identifies.then_some(key_of as fn(&Value, &PluginDef) -> ConsumerKey)
    }

    fn answer<'a>(&'a self, api: usize, request: &'a mut Request) -> Step<'a> {
        match self.apis.get(api) {
            Some(program) => program.run(request, Phase::Access),
            None => Step::reply(Reply::page(404)),
        }
    }
}

/// By the first text that each consumer has to have, else by all that it has.
fn key_of(conf: &Value, def: &PluginDef) -> ConsumerKey {
    let schema = def.consumer_schema.and_then(|text| serde_json::from_str::<Value>(text).ok());
    let field = schema.as_ref().and_then(declared::key_field);
    let key = field.and_then(|field| conf.get(field)).and_then(Value::as_str);
    ConsumerKey { key: key.map_or_else(|| conf.to_string(), str::to_owned), data: Box::new(()) }
}

struct Instance {
    program: Program,
    phases: Phases,
}

impl Plugin for Instance {
    fn phases(&self) -> Phases {
        self.phases
    }

    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.program.run(request, Phase::Rewrite)
    }

    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.program.run(request, Phase::Access)
    }

    fn before_proxy<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        self.program.run(request, Phase::BeforeProxy)
    }

    fn header_filter(&self, request: &mut Request) {
        if self.phases.contains(Phases::BODY_FILTER) {
            // The head must not promise a length that the function may change.
            request.response.length_modified();
            request.response.limit_body_step(BODY_STEP);
        }
        self.program.run_late(request, Phase::HeaderFilter);
    }

    fn body_filter(&self, request: &mut Request, chunk: &mut BodyChunk) {
        self.program.run_on_chunk(request, chunk, Phase::BodyFilter);
        self.program.run_on_chunk(request, chunk, Phase::DelayedBodyFilter);
    }

    fn log(&self, request: &mut Request) {
        self.program.run_late(request, Phase::Log);
    }

    fn foresee(&self, _: Phases, _: &mut Request) -> Foresight {
        Foresight::maybe(None, Why::Runs)
    }

    fn may_change_status(&self) -> bool {
        self.phases.contains(Phases::HEADER_FILTER)
    }
}
