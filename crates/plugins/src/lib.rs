//! The plugins, one file each. `registry` lists them; what several of them need is in `common`.

#![forbid(unsafe_code)]

pub mod common;
pub mod registry;

mod basic_auth;
mod elasticsearch_logger;
mod file_logger;
mod http_logger;
mod kafka_logger;
mod key_auth;
mod limit_count;
mod log_rotate;
mod loki_logger;
mod lua;
mod mocking;
mod opentelemetry;
mod prometheus;
mod serverless;
mod syslog;
mod tcp_logger;
mod udp_logger;

use std::sync::Arc;

use model::check::{LuaChunk, LuaFault};
use plugin::LuaCompiler;

/// Compiles the Lua in configurations.
pub fn lua_compiler() -> Option<Arc<dyn LuaCompiler>> {
    Some(Arc::new(lua::Compiler))
}

/// Checks the Lua in a resource that somebody wants to store.
pub fn check_lua(chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
    lua::check(chunk, source)
}
