//! What the process offers to plugins, set once at start.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use serde_json::Value;

use crate::Catalog;

/// What the process offers to plugins; see [`host`].
pub struct Host {
    /// The control runtime: for work that must not run on a worker (batches, tokens, probes).
    pub background: tokio::runtime::Handle,
    /// The plugins that are enabled.
    pub catalog: Arc<Catalog>,
    /// Counters of the metrics page, one shard per worker.
    pub metrics: Arc<tidegate_telemetry::metrics::Registry>,
    /// The thread that writes the log files; to be asked to reopen after they are moved.
    pub log_writer: tidegate_telemetry::log_writer::LogWriter,
    /// Renders the metrics page. Takes its time: never on a worker.
    pub metrics_page: Box<dyn Fn(tidegate_telemetry::metrics::Form) -> Bytes + Send + Sync>,
    /// Sums over all workers, at the moment of the call.
    pub connections: Box<dyn Fn() -> ConnectionCounts + Send + Sync>,
    /// `APISIX/3.18.0`, or `APISIX` with `enable_server_tokens: false`.
    pub server_token: String,
    /// Of the machine: `$hostname`.
    pub hostname: String,
    /// `plugin_attr` of config.yaml.
    pub plugin_attributes: Value,
    /// The whole effective config.yaml, for plugins that need an odd key of it.
    pub settings: Value,
    /// `graphql.max_size`
    pub graphql_max_bytes: usize,
    /// `apisix.max_post_args_readable_size`
    pub condition_body_bytes: usize,
    /// `apisix.body_memory.parsed`
    pub parsed_body_bytes: usize,
    /// Worker threads.
    pub workers: usize,
    /// The installation's directory (`--prefix`): relative paths in configurations start here.
    pub prefix: std::path::PathBuf,
    /// The prefix in etcd, which precedes `/routes/1` where other gateways name that resource. Empty with files.
    pub resource_prefix: String,
    /// When the process was started, for uptimes.
    pub started: std::time::SystemTime,
}

/// Client connections and requests of the process.
#[derive(Clone, Copy, Debug, Default)]
pub struct ConnectionCounts {
    /// Connections since the start, refused ones included.
    pub accepted: u64,
    /// Accepted and not refused for lack of room.
    pub handled: u64,
    /// Connections open now.
    pub active: u64,
    /// Active, between two requests.
    pub idle: u64,
    /// Requests since the start.
    pub requests: u64,
}

static HOST: OnceLock<Host> = OnceLock::new();

impl Host {
    /// Makes the host known; the first call wins.
    pub fn install(self) {
        let _ = HOST.set(self);
    }
}

/// The host, or `None` before it is installed (in unit tests of pure code).
pub fn host() -> Option<&'static Host> {
    HOST.get()
}

/// Bodies that conditions look into are read up to this size.
pub fn condition_body_bytes() -> usize {
    host().map_or(64 << 20, |host| host.condition_body_bytes)
}

/// `plugin_attr.NAME` of config.yaml.
pub fn plugin_attribute(name: &str) -> Option<&'static Value> {
    host()?.plugin_attributes.get(name)
}
