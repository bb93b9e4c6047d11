//! Lua in configurations: serverless functions, `filter_func`, `_meta.pre_function`, `script`.
//!
//! Each worker has one interpreter (LuaJIT's, see [`vm`]); a configuration's functions are loaded into it at their first
//! call and keep their upvalues from request to request, as in APISIX. What they may call is in [`api`].

mod api;
#[allow(unsafe_code, reason = "the allocator and the hook of an interpreter")]
mod bounds;
mod clock;
mod current;
mod filter;
mod json;
mod making;
mod pattern;
mod phases;
mod program;
mod script;
#[allow(unsafe_code, reason = "functions of the library `string`")]
mod strings;
mod template;
mod vm;

#[cfg(test)]
mod depth_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

pub use program::context_field;

use mlua::Value;
use tidegate_model::check::{LuaChunk, LuaFault};
use tidegate_plugin_api::{LuaCompiler, Plugin, snapshot::FilterFunction};

pub use making::{Entries, Key, Source};
pub use program::{Phase, Program};
pub use template::Template;

/// What compiles the Lua of configurations.
pub fn compiler() -> Option<Arc<dyn LuaCompiler>> {
    Some(Arc::new(Compiler))
}

struct Compiler;

impl LuaCompiler for Compiler {
    fn filter(&self, source: &str) -> Result<Arc<dyn FilterFunction>, String> {
        Ok(Arc::new(filter::Filter::new(source)?))
    }

    fn pre_function(&self, source: &str, conf: &serde_json::Value) -> Result<Arc<dyn Plugin>, String> {
        Ok(Arc::new(script::PreFunction::new(source, conf)?))
    }

    fn script(&self, source: &str) -> Result<Arc<dyn Plugin>, String> {
        Ok(Arc::new(script::Script::new(source)?))
    }

    fn script_remarks(&self, source: &str) -> Vec<String> {
        script_remarks(source)
    }
}

/// What an expression says of a value `t`.
#[cfg(test)]
pub fn evaluate(source: Source<'_>, expression: &str) -> String {
    let vm = vm::vm().unwrap();
    let value = making::Making::new(&vm.lua, source).unwrap().go_on(|| Ok(true)).unwrap();
    vm.lua.globals().set("t", value).unwrap();
    vm.lua.load(format!("return {expression}")).eval().unwrap()
}

/// Checks the Lua of a resource that is to be stored.
pub fn check(chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
    let checked = check_chunk(chunk, source);
    vm::forget_checked();
    checked
}

fn check_chunk(chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
    let evaluate = |source: &str, name: &str| -> Result<Value, LuaFault> {
        let vm = vm::vm().map_err(LuaFault::Load)?;
        let value = vm.evaluate(source, name).map_err(LuaFault::Load)?;
        value.map_err(|error| LuaFault::Load(vm::message(&error)))
    };
    match chunk {
        LuaChunk::FilterFunction => match {
            let source = format!("return {source}");
            evaluate(&source, &source)
        }? {
            Value::Function(_) => Ok(()),
            _ => Err(LuaFault::WrongKind),
        },
        LuaChunk::Script => match evaluate(source, source)? {
            Value::Table(table) => phases::check(&table),
            _ => Err(LuaFault::WrongKind),
        },
        LuaChunk::PreFunction => evaluate(source, "meta pre_function").map(|_| ()),
    }
}

/// The parts of a script that have no effect. A script that cannot be used is reported elsewhere.
fn script_remarks(source: &str) -> Vec<String> {
    let remarks = || -> Option<Vec<String>> {
        match vm::vm().ok()?.evaluate(source, source).ok()?.ok()? {
            Value::Table(table) => phases::check(&table).is_ok().then(|| phases::remarks(&table, source)),
            _ => None,
        }
    };
    let found = remarks();
    vm::forget_checked();
    found.unwrap_or_default()
}

/// Checks one of a serverless plugin's functions, with APISIX's messages.
pub fn check_function(source: &str) -> Result<(), String> {
    let checked = run_checked(source);
    vm::forget_checked();
    checked
}

fn run_checked(source: &str) -> Result<(), String> {
    let vm = vm::vm()?;
    let value = vm.evaluate(source, source).map_err(|reason| format!("failed to loadstring: {reason}"))?;
    match value {
        Err(error) => Err(format!("pcall error: {}", vm::message(&error))),
        Ok(Value::Function(_)) => Ok(()),
        Ok(Value::Integer(_)) => Err("only accept Lua function, the input code type is number".to_owned()),
        Ok(other) => Err(format!("only accept Lua function, the input code type is {}", other.type_name())),
    }
}
