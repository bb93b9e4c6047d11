//! Whether Lua that is to be stored can be used: it is loaded and run once.

use mlua::Value;
use tidegate_model::check::{LuaChunk, LuaFault};

use super::{chunk, phases, vm};

/// Checks the Lua of a resource that is to be stored.
pub(crate) fn check(chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
    let checked = check_chunk(chunk, source);
    vm::forget_checked();
    checked
}

fn check_chunk(chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
    let evaluate = |source: &str, name: &str| -> Result<Value, LuaFault> {
        let vm = vm::vm().map_err(LuaFault::Load)?;
        let value = vm.evaluate(source, name).map_err(LuaFault::Load)?;
        value.map_err(|error| LuaFault::Load(chunk::message(&error)))
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
pub(super) fn script_remarks(source: &str) -> Vec<String> {
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
pub(crate) fn check_function(source: &str) -> Result<(), String> {
    let checked = run_checked(source);
    vm::forget_checked();
    checked
}

fn run_checked(source: &str) -> Result<(), String> {
    let vm = vm::vm()?;
    let value = vm.evaluate(source, source).map_err(|reason| format!("failed to loadstring: {reason}"))?;
    match value {
        Err(error) => Err(format!("pcall error: {}", chunk::message(&error))),
        Ok(Value::Function(_)) => Ok(()),
        Ok(Value::Integer(_)) => Err("only accept Lua function, the input code type is number".to_owned()),
        Ok(other) => Err(format!("only accept Lua function, the input code type is {}", other.type_name())),
    }
}
