//! Lua in configurations: serverless functions, `filter_func`, `_meta.pre_function`, `script`.
//!
//! Each worker has one interpreter (LuaJIT's, see [`vm`]); a configuration's functions are loaded into it at their first
//! call and keep their upvalues from request to request, as in APISIX. What they may call is in [`api`].

mod api;
mod array;
#[allow(unsafe_code, reason = "the allocator and the hook of an interpreter")]
mod bounds;
mod check;
mod chunk;
mod clock;
mod current;
mod ending;
mod exits;
mod files;
mod filter;
mod http;
mod json;
mod making;
mod members;
mod pattern;
mod phases;
mod program;
mod script;
#[allow(unsafe_code, reason = "functions of the library `string`")]
mod strings;
mod template;
mod timers;
mod vm;
mod waiting;

#[cfg(test)]
mod depth_tests;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use tidegate_plugin_api::{FilterFunction, LuaCompiler, Plugin};

pub(crate) use check::check;
pub(crate) use check::check_function;
pub(crate) use exits::{Answer, Body, Exits, Remade};
pub(crate) use files::declare;
pub(crate) use making::{Entries, Key, Source};
pub(crate) use program::context_field;
pub(crate) use program::{Phase, Program};
pub(crate) use template::Template;
pub(crate) use vm::forget;

/// What compiles the Lua of configurations.
pub(crate) fn compiler() -> Option<Arc<dyn LuaCompiler>> {
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
        check::script_remarks(source)
    }
}

/// What an expression says of a value `t`.
#[cfg(test)]
pub(crate) fn evaluate(source: Source<'_>, expression: &str) -> String {
    let vm = vm::vm().unwrap();
    let value = making::Making::new(&vm.lua, source).unwrap().advance(|| Ok(true)).unwrap();
    vm.lua.globals().set("t", value).unwrap();
    vm.lua.load(format!("return {expression}")).eval().unwrap()
}
