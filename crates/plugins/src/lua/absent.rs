//! In place of Lua, in a build without it.

#![allow(missing_docs, reason = "documented where the feature is on")]

use std::sync::Arc;

use serde_json::Value;
use tidegate_model::{
    catalog::built_without,
    check::{LuaChunk, LuaFault},
};
use tidegate_plugin_api::{LuaCompiler, PluginDef, Request};

pub(crate) fn compiler() -> Option<Arc<dyn LuaCompiler>> {
    None
}

pub(crate) fn check(_: LuaChunk, _: &str) -> Result<(), LuaFault> {
    Err(LuaFault::Load(built_without("lua")))
}

/// No file can be loaded.
pub(crate) fn declare(
    _: &str,
    _: Result<&crate::lua_files::Modules, String>,
) -> (Option<&'static PluginDef>, Option<String>) {
    (None, Some(built_without("lua")))
}

/// Stands in for the interpreter, which this build does not have.
pub(crate) fn forget() {}

/// Only Lua sets fields of its context.
pub(crate) fn context_field(_: &Request, _: &str) -> Option<Value> {
    None
}
