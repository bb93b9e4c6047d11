//! What a registry is, and what it is started with.

use std::{path::PathBuf, sync::Arc};

use serde_json::Value;
use tidegate_model::resources::{DiscoveredService, Node};
use tidegate_telemetry::error_log::{self, Level};
use tokio::{runtime::Handle, sync::watch};

/// One registry as the others see it.
pub(crate) trait Registry: Send + Sync {
    /// `None`: the registry does not know the service, or nothing is known yet.
    fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>>;

    /// The services in use, for registries that are asked one by one.
    fn want(&self, _services: &[DiscoveredService]) {}

    /// Whether the registry has answered, or failed, as far as this service goes.
    fn is_settled(&self, service: &DiscoveredService) -> bool;

    /// What `/v1/discovery/TYPE/dump` shows; DNS has no such page in APISIX.
    fn dump(&self) -> Option<Value> {
        None
    }

    /// Where the last answers are kept on disk.
    fn dump_file(&self) -> Option<PathBuf> {
        None
    }

    /// Kubernetes only: whether the lists of all clusters have come.
    fn is_ready(&self) -> Result<(), String> {
        Ok(())
    }
}

/// What a registry is started with.
#[derive(Clone)]
pub(crate) struct Start {
    pub(super) runtime: Handle,
    pub(super) signals: Signals,
    /// Where relative paths begin.
    pub(super) prefix: PathBuf,
    /// `apisix.enable_ipv6`
    pub(super) ipv6: bool,
}

/// How registries report that something happened.
#[derive(Clone)]
pub(crate) struct Signals {
    /// Counts changes of nodes.
    pub(super) changes: watch::Sender<u64>,
    /// Counts answers and failures.
    pub(super) attempts: watch::Sender<u64>,
}

impl Signals {
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }

    pub(crate) fn attempted(&self) {
        self.attempts.send_modify(|attempts| *attempts += 1);
    }
}

pub(crate) fn log_error(kind: &str, message: &str) {
    error_log::log(Level::Error, format_args!("discovery {kind}: {message}"));
}
