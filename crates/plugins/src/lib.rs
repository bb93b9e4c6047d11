//! The plugins, one file each. `registry` lists them; what several of them need is in `common`.

#![forbid(unsafe_code)]

pub mod common;
pub mod registry;

mod example_plugin;
mod key_auth;
mod limit_count;
mod mocking;
mod prometheus;

use std::sync::Arc;

use model::check::{LuaChunk, LuaFault};
use plugin::LuaCompiler;

/// Compiles the Lua in configurations; `None` in a build without it.
pub fn lua_compiler() -> Option<Arc<dyn LuaCompiler>> {
    None
}

/// Checks the Lua in a resource that somebody wants to store.
pub fn check_lua(_: LuaChunk, _: &str) -> Result<(), LuaFault> {
    Err(LuaFault::Load("Lua is not available in this build".to_owned()))
}
