//! What the Control API is made of.

use std::sync::Arc;

use tidegate_model::{Kind, PluginCatalog};
use tidegate_store::{BoxFuture, Store};

use crate::{
    Audit, Compiled, Hosts,
    message::{Head, Response},
};

/// What a [`ControlApi`] is made of.
pub struct ControlParts {
    /// The first part of shown keys: `/apisix` with a database, empty with files.
    pub key_prefix: String,
    pub server: &'static str,
    pub store: Arc<dyn Store>,
    pub plugins: Arc<dyn PluginCatalog>,
    pub stream_plugins: Option<Arc<dyn PluginCatalog>>,
    pub health: Arc<dyn HealthView>,
    pub hooks: Arc<dyn ControlHooks>,
    /// Records every attempt to change something.
    pub audit: Option<Arc<Audit>>,
    pub compiled: Arc<dyn Compiled>,
    pub hosts: Hosts,
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
    /// `POST /v1/gc`: give memory back.
    fn collect_garbage(&self) {}
}

pub struct NoControlHooks;

impl ControlHooks for NoControlHooks {}

/// What the health checks have found out.
pub trait HealthView: Send + Sync {
    /// The nodes checked for the upstream in an object: a route, stream route, service or upstream.
    fn nodes(&self, kind: Kind, id: &str) -> Vec<NodeHealth>;
}

pub struct NoHealth;

impl HealthView for NoHealth {
    fn nodes(&self, _: Kind, _: &str) -> Vec<NodeHealth> {
        Vec::new()
    }
}

#[derive(Clone, Debug)]
pub struct NodeHealth {
    pub ip: String,
    pub port: u16,
    pub hostname: String,
    /// `healthy`, `mostly_healthy`, `mostly_unhealthy`, `unhealthy`.
    pub status: &'static str,
    pub successes: u64,
    pub tcp_failures: u64,
    pub http_failures: u64,
    pub timeout_failures: u64,
}
