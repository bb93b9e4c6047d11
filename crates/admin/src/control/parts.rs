//! What the Control API is made of.

use std::sync::Arc;

use tidegate_model::{Kind, PluginCatalog};
use tidegate_store::{BoxFuture, Store};

use super::inspect::Inspect;
use crate::{
    Audit, Compiled, Hosts,
    message::{Head, Response},
};

/// What a [`ControlApi`] is made of.
pub struct ControlParts {
    /// The first part of shown keys: `/apisix` with a database, empty with files.
    pub key_prefix: String,
    /// The field `Server` of responses.
    pub server: &'static str,
    /// Where objects are read.
    pub store: Arc<dyn Store>,
    /// The HTTP plugins.
    pub plugins: Arc<dyn PluginCatalog>,
    /// The plugins of stream routes; `None`: stream mode is off.
    pub stream_plugins: Option<Arc<dyn PluginCatalog>>,
    /// Health of nodes.
    pub health: Arc<dyn HealthView>,
    /// What the API asks of the process.
    pub hooks: Arc<dyn ControlHooks>,
    /// Records every attempt to change something.
    pub audit: Option<Arc<Audit>>,
    /// What could not be compiled.
    pub compiled: Arc<dyn Compiled>,
    /// The names that the API is served as.
    pub hosts: Hosts,
    /// `None`: profiling is off.
    pub inspect: Option<Arc<dyn Inspect>>,
}

/// What others add to the Control API.
pub trait ControlHooks: Send + Sync {
    /// What is below `/v1/discovery`; may block.
    fn discovered(&self, _head: &Head) -> Option<Response> {
        None
    }
    /// `PUT /v1/plugins/reload`; the error becomes the body of a 503.
    fn reload_plugins(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
    /// Why the gateway accepts no connections. `None`: it does.
    fn not_serving(&self) -> Option<&'static str> {
        None
    }
    /// `POST /v1/gc`: give memory back.
    fn collect_garbage(&self) {}
}

/// Hooks of a process that can do nothing, for tests and tools.
pub struct NoControlHooks;

impl ControlHooks for NoControlHooks {}

/// What the health checks have found out.
pub trait HealthView: Send + Sync {
    /// The nodes checked for the upstream in an object: a route, stream route, service or upstream.
    fn nodes(&self, kind: Kind, id: &str) -> Vec<NodeHealth>;
}

/// Of a process that checks no health.
pub struct NoHealth;

impl HealthView for NoHealth {
    fn nodes(&self, _: Kind, _: &str) -> Vec<NodeHealth> {
        Vec::new()
    }
}

/// A node and what its checks counted.
#[derive(Clone, Debug)]
pub struct NodeHealth {
    /// Its address.
    pub ip: String,
    /// Its port.
    pub port: u16,
    /// As the upstream names it.
    pub hostname: String,
    /// `healthy`, `mostly_healthy`, `mostly_unhealthy`, `unhealthy`.
    pub status: &'static str,
    /// In a row.
    pub successes: u64,
    /// In a row.
    pub tcp_failures: u64,
    /// In a row.
    pub http_failures: u64,
    /// In a row.
    pub timeout_failures: u64,
}
