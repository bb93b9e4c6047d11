//! The plugins, one file each. `registry` lists them; what several of them need is in `common`.

#![forbid(unsafe_code)]

pub mod common;
pub mod registry;

mod batch_requests;
mod brotli;
mod client_control;
mod cors;
mod echo;
mod fault_injection;
mod gzip;
mod ip_restriction;
mod key_auth;
mod limit_count;
mod mocking;
mod prometheus;
mod proxy_rewrite;
mod public_api;
mod real_ip;
mod redirect;
mod referer_restriction;
mod request_id;
mod request_validation;
mod response_rewrite;
mod traffic_split;
mod ua_restriction;
mod uri_blocker;

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
