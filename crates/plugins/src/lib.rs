//! The plugins, one file each, in groups as APISIX's documentation has them. What several of them need is in `common`.

#![deny(missing_docs)]
#![deny(unsafe_code)]

pub mod common;
mod ext_plugin;
#[cfg_attr(not(feature = "lua"), path = "lua/absent.rs")]
mod lua;
pub mod lua_files;
#[cfg(feature = "lua")]
#[doc(hidden)]
pub mod parsers;
pub mod registry;
mod stream;

// The list of plugins: each `pub(crate) mod` below is one. `build.rs` makes the registry out of these lines, and tests hold
// conf/config.yaml and docs/plugins/README.md against it. `scripts/new-plugin` adds a line, with all that belongs to it.

/// Who sends a request.
mod authentication {
    pub(crate) mod app_key;
    pub(crate) mod authz_casbin;
    pub(crate) mod authz_casdoor;
    pub(crate) mod authz_keycloak;
    pub(crate) mod basic_auth;
    pub(crate) mod cas_auth;
    mod code_login;
    pub(crate) mod dingtalk_auth;
    pub(crate) mod feishu_auth;
    pub(crate) mod forward_auth;
    pub(crate) mod hmac_auth;
    pub(crate) mod jwe_decrypt;
    pub(crate) mod jwt_auth;
    pub(crate) mod key_auth;
    pub(crate) mod ldap_auth;
    pub(crate) mod ldap_auth_advanced;
    pub(crate) mod multi_auth;
    pub(crate) mod opa;
    pub(crate) mod openid_connect;
    pub(crate) mod saml_auth;
    pub(crate) mod wolf_rbac;
}

/// How much is let through, which way it goes, and what is kept.
mod traffic {
    pub(crate) mod api_breaker;
    pub(crate) mod client_control;
    pub(crate) mod graphql_limit_count;
    pub(crate) mod graphql_proxy_cache;
    pub(crate) mod limit_conn;
    pub(crate) mod limit_count;
    pub(crate) mod limit_req;
    pub(crate) mod oas_validator;
    pub(crate) mod proxy_buffering;
    pub(crate) mod proxy_cache;
    pub(crate) mod proxy_control;
    pub(crate) mod proxy_mirror;
    pub(crate) mod request_id;
    pub(crate) mod request_validation;
    pub(crate) mod sla;
    pub(crate) mod traffic_label;
    pub(crate) mod traffic_split;
    pub(crate) mod workflow;
}

/// What is refused, and what browsers may do.
mod security {
    pub(crate) mod acl;
    pub(crate) mod chaitin_waf;
    pub(crate) mod consumer_restriction;
    pub(crate) mod cors;
    pub(crate) mod csrf;
    pub(crate) mod ip_restriction;
    pub(crate) mod public_api;
    pub(crate) mod referer_restriction;
    pub(crate) mod ua_restriction;
    pub(crate) mod uri_blocker;
}

/// What is changed in requests and answers, or made up.
mod transformation {
    pub(crate) mod attach_consumer_label;
    #[cfg(feature = "lua")]
    pub(crate) mod body_transformer;
    pub(crate) mod degraphql;
    pub(crate) mod error_page;
    #[cfg(feature = "lua")]
    pub(crate) mod exit_transformer;
    pub(crate) mod fault_injection;
    #[cfg_attr(not(feature = "grpc-transcode"), path = "grpc_transcode/absent.rs")]
    pub(crate) mod grpc_transcode;
    pub(crate) mod grpc_web;
    pub(crate) mod mocking;
    pub(crate) mod proxy_redirect;
    pub(crate) mod proxy_rewrite;
    pub(crate) mod response_rewrite;
}

/// What is counted, traced and logged.
mod observability {
    pub(crate) mod clickhouse_logger;
    pub(crate) mod data_mask;
    pub(crate) mod datadog;
    pub(crate) mod elasticsearch_logger;
    pub(crate) mod error_log_logger;
    pub(crate) mod file_logger;
    pub(crate) mod google_cloud_logging;
    pub(crate) mod http_logger;
    pub(crate) mod kafka_logger;
    pub(crate) mod lago;
    pub(crate) mod log_rotate;
    pub(crate) mod loggly;
    pub(crate) mod loki_logger;
    pub(crate) mod node_status;
    pub(crate) mod opentelemetry;
    pub(crate) mod prometheus;
    pub(crate) mod rocketmq_logger;
    pub(crate) mod server_info;
    pub(crate) mod skywalking;
    pub(crate) mod skywalking_logger;
    pub(crate) mod sls_logger;
    pub(crate) mod splunk_hec_logging;
    pub(crate) mod syslog;
    pub(crate) mod tcp_logger;
    pub(crate) mod tencent_cloud_cls;
    pub(crate) mod udp_logger;
    pub(crate) mod zipkin;
}

/// Functions of the configuration, and of other systems.
mod serverless {
    pub(crate) mod aws_lambda;
    pub(crate) mod azure_functions;
    #[cfg(feature = "lua")]
    mod function;
    pub(crate) mod openfunction;
    pub(crate) mod openwhisk;
    mod remote;
    #[cfg(feature = "lua")]
    pub(crate) mod serverless_post_function;
    #[cfg(feature = "lua")]
    pub(crate) mod serverless_pre_function;
}

/// What APISIX calls general.
mod other {
    pub(crate) mod batch_requests;
    pub(crate) mod brotli;
    pub(crate) mod dubbo_proxy;
    pub(crate) mod echo;
    pub(crate) mod example_plugin;
    pub(crate) mod ext_plugin_post_req;
    pub(crate) mod ext_plugin_post_resp;
    pub(crate) mod ext_plugin_pre_req;
    pub(crate) mod gzip;
    pub(crate) mod http_dubbo;
    pub(crate) mod kafka_proxy;
    pub(crate) mod ocsp_stapling;
    pub(crate) mod real_ip;
    pub(crate) mod redirect;
    pub(crate) mod static_files;
}

use std::sync::Arc;

use tidegate_model::check::{LuaChunk, LuaFault};
use tidegate_plugin_api::{LuaCompiler, PluginDef};

/// Compiles the Lua in configurations. `None` in a build without Lua.
pub fn lua_compiler() -> Option<Arc<dyn LuaCompiler>> {
    lua::compiler()
}

/// The plugins of this list that users wrote as files, with config.yaml as they may ask for it, and what is wrong with those that cannot be loaded: name and reason.
pub fn plugins_in_files(
    path: &lua_files::LuaPath,
    plugins: &[String],
    settings: &serde_json::Value,
) -> (Vec<&'static PluginDef>, Vec<(String, String)>) {
    let (modules, unread) = lua_files::Modules::of_plugins(path, plugins);
    // One that is listed twice is one.
    let listed =
        (0..).zip(plugins).filter(|(at, name)| !plugins.iter().take(*at).any(|other| other == *name));
    let names: Vec<&String> =
        listed.map(|(_, name)| name).filter(|name| path.plugin(name).is_some()).collect();
    lua_files::provide(path.clone(), modules.clone(), settings.clone());
    let (mut defs, mut faults) = (Vec::new(), Vec::new());
    for name in names {
        let unread = unread.iter().find(|(other, _)| other == name).map(|(_, reason)| reason.clone());
        let (def, fault) = lua::declare(name, unread.map_or(Ok(&modules), Err));
        defs.extend(def);
        faults.extend(fault.map(|fault| (name.clone(), fault)));
    }
    lua_files::seal();
    lua::forget();
    (defs, faults)
}

/// Checks the Lua in a resource that is to be stored.
pub fn check_lua(chunk: LuaChunk, source: &str) -> Result<(), LuaFault> {
    lua::check(chunk, source)
}

/// Checks the text of a `protos` resource.
pub fn check_proto(content: &str) -> Result<(), String> {
    transformation::grpc_transcode::check_proto(content)
}

/// Memory that all workers share: name, capacity and free bytes.
pub fn shared_memory() -> Vec<(String, usize, usize)> {
    traffic::proxy_cache::memory_zones()
}

/// Where plugin server-info keeps its report in etcd, below the prefix.
pub fn server_info_key() -> String {
    observability::server_info::key()
}

/// The report itself, to an etcd of this version.
pub fn server_info(etcd_version: &str) -> serde_json::Value {
    observability::server_info::report(Some(etcd_version))
}

pub use authentication::openid_connect::{Begun, SignIn, SignInSettings};
pub use ext_plugin::process::Runner;

/// What compressing and decompressing bodies holds.
pub fn compression_memory() -> common::compression::memory::Usage {
    common::compression::memory::usage()
}

/// What plugin prometheus has counted of stream routes.
pub fn stream_counts() -> Vec<(&'static str, Vec<(&'static str, String)>, f64)> {
    stream::prometheus::samples()
}

/// What was counted of commands of Redis, of stream routes with that protocol.
pub fn redis_commands() -> Vec<stream::xrpc::redis::metrics::Counted> {
    stream::xrpc::redis::metrics::counted()
}

/// Per plugin that counts by keys of clients: the keys it keeps, and those it forgot although they counted.
pub fn limiter_keys() -> Vec<common::shards::Usage> {
    common::shards::usage()
}
