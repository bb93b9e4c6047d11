//! Service discovery: the nodes of upstreams that have a `service_name` instead of nodes.
//!
//! Each registry that config.yaml names under `discovery` is followed by tasks on the control runtime. What they learn
//! lies in a table of [`Known`] nodes that the compiler reads; no request ever waits for a registry. While a registry
//! does not answer, its last answer stays: only an answer removes nodes.
//!
//! One file per registry: `dns`, `consul`, `consul_kv`, `nacos`, `eureka`, `kubernetes`.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod conf;
mod consul;
mod consul_kv;
mod dns;
mod dump_file;
mod eureka;
mod hosts;
mod http;
mod known;
#[cfg(feature = "kubernetes")]
mod kubernetes;
mod nacos;
mod registry;
mod retry;
mod shown;

use std::{collections::BTreeMap, path::Path, path::PathBuf, sync::Arc, time::Duration};

use serde_json::Value;
use tidegate_model::resources::{DiscoveredService, Node};
use tokio::{runtime::Handle, sync::watch};

use crate::registry::{Registry, Signals, Start};

pub use conf::check;

/// The registries of config.yaml. Following ends with the runtime.
pub struct Discovery {
    registries: BTreeMap<String, Arc<dyn Registry>>,
    signals: Signals,
}

impl Discovery {
    /// Starts following. `conf` is `discovery` of config.yaml; the error names the place in it.
    pub fn start(conf: &Value, runtime: &Handle, prefix: &Path, ipv6: bool) -> Result<Discovery, String> {
        let signals = Signals { changes: watch::Sender::new(0), attempts: watch::Sender::new(0) };
        let start =
            Start { runtime: runtime.clone(), signals: signals.clone(), prefix: prefix.to_owned(), ipv6 };
        let mut registries: BTreeMap<String, Arc<dyn Registry>> = BTreeMap::new();
        for (kind, conf) in conf.as_object().into_iter().flatten().filter(|(_, conf)| !conf.is_null()) {
            let conf = conf::checked(kind, conf)?;
            let _entered = runtime.enter();
            let registry: Arc<dyn Registry> = match kind.as_str() {
                "dns" => dns::start(&conf, &start)?,
                "consul" => consul::start(&conf, &start)?,
                "consul_kv" => consul_kv::start(&conf, &start)?,
                "nacos" => nacos::start(&conf, &start)?,
                "eureka" => eureka::start(&conf, &start)?,
                #[cfg(feature = "kubernetes")]
                "kubernetes" => kubernetes::start(&conf, &start)?,
                other => return Err(conf::not_supported(other)),
            };
            registries.insert(kind.clone(), registry);
        }
        Ok(Discovery { registries, signals })
    }

    /// The nodes that a service has as far as is known. Empty and `None` are both no nodes.
    pub fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.registries.get(&*service.registry)?.nodes(service)
    }

    /// Passes on the services in use, and waits for the first answers about them, for at most `patience`.
    pub async fn want(&self, services: &[DiscoveredService], patience: Duration) {
        for (kind, registry) in &self.registries {
            let mine: Vec<_> =
                services.iter().filter(|service| *service.registry == **kind).cloned().collect();
            registry.want(&mine);
        }
        let settled = async {
            let mut attempts = self.signals.attempts.subscribe();
            while !services.iter().all(|service| self.is_settled(service)) {
                if attempts.changed().await.is_err() {
                    return;
                }
            }
        };
        let _ = tokio::time::timeout(patience, settled).await;
    }

    fn is_settled(&self, service: &DiscoveredService) -> bool {
        self.registries.get(&*service.registry).is_none_or(|registry| registry.is_settled(service))
    }

    /// Whether config.yaml has this registry.
    pub fn has(&self, kind: &str) -> bool {
        self.registries.contains_key(kind)
    }

    /// Changes when the nodes of any service have changed.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.signals.changes.subscribe()
    }

    /// For the Control API's `/v1/discovery/{kind}/dump`; `None`: that registry is not configured.
    pub fn dump(&self, kind: &str) -> Option<Value> {
        self.registries.get(kind)?.dump()
    }

    /// `Some(None)`: the registry is there but keeps nothing on disk.
    pub fn dump_file(&self, kind: &str) -> Option<Option<PathBuf>> {
        Some(self.registries.get(kind)?.dump_file())
    }

    /// The error says what is missing.
    pub fn is_ready(&self) -> Result<(), String> {
        self.registries.values().try_for_each(|registry| registry.is_ready())
    }
}
