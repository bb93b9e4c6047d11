//! The plugins, one file each. `registry` lists them; what several of them need is in `common`.

#![deny(unsafe_code)]

pub mod common;
#[cfg(feature = "lua")]
#[doc(hidden)]
pub mod parsers;
pub mod registry;

mod acl;
mod api_breaker;
mod app_key;
mod attach_consumer_label;
mod basic_auth;
mod batch_requests;
#[cfg(feature = "lua")]
mod body_transformer;
mod brotli;
mod client_control;
mod consumer_restriction;
mod cors;
mod csrf;
mod echo;
mod elasticsearch_logger;
mod example_plugin;
mod fault_injection;
mod file_logger;
mod forward_auth;
#[cfg_attr(not(feature = "grpc-transcode"), path = "grpc_transcode/absent.rs")]
mod grpc_transcode;
mod grpc_web;
mod gzip;
mod hmac_auth;
mod http_logger;
mod ip_restriction;
mod jwt_auth;
mod kafka_logger;
mod key_auth;
mod ldap_auth;
mod limit_conn;
mod limit_count;
mod limit_req;
mod log_rotate;
mod loki_logger;
#[cfg_attr(not(feature = "lua"), path = "lua/absent.rs")]
mod lua;
mod mocking;
mod multi_auth;
mod node_status;
mod ocsp_stapling;
mod opa;
mod openid_connect;
mod opentelemetry;
mod prometheus;
mod proxy_cache;
mod proxy_control;
mod proxy_mirror;
mod proxy_redirect;
mod proxy_rewrite;
mod public_api;
mod real_ip;
mod redirect;
mod referer_restriction;
mod request_id;
mod request_validation;
mod response_rewrite;
#[cfg(feature = "lua")]
mod serverless;
mod sla;
mod static_files;
mod syslog;
mod tcp_logger;
mod traffic_split;
mod ua_restriction;
mod udp_logger;
mod uri_blocker;
mod workflow;
mod zipkin;

use std::sync::Arc;

use tidegate_model::check::{LuaChunk, LuaFault};
use tidegate_plugin_api::LuaCompiler;

/// Compiles the Lua in configurations. `None` in a build without Lua.
pub fn lua_compiler() -> Option<Arc<dyn LuaCompiler>> {
    lua::compiler()
}

/// Checks the Lua in a resource that somebody wants to store.
pub fn check_lua(chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
    lua::check(chunk, source)
}

/// Checks the text of a `protos` resource.
pub fn check_proto(content: &str) -> Result<(), String> {
    grpc_transcode::check_proto(content)
}

/// Memory that all workers share: name, capacity and free bytes.
pub fn shared_memory() -> Vec<(String, usize, usize)> {
    proxy_cache::memory_zones()
}

/// What compressing and decompressing bodies holds.
pub fn compression_memory() -> common::compression::memory::Usage {
    common::compression::memory::usage()
}

/// Per plugin that counts by keys of clients: the keys it keeps, and those it forgot although they counted.
pub fn limiter_keys() -> Vec<common::shards::Usage> {
    common::shards::usage()
}
