//! Nodes that come from service discovery: between the registries and the compiler, and on the Control API.

use std::{
    collections::{HashMap, HashSet},
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tidegate_admin::{AdminHead, AdminResponse, ControlHooks};
use tidegate_compiler::ServiceNodes;
use tidegate_config::Settings;
use tidegate_discovery::Discovery;
use tidegate_model::resources::{DiscoveredService, Node};
use tidegate_store::BoxFuture;
use tidegate_telemetry::error_log;
use tokio::{runtime::Runtime, sync::watch};

use super::{commands, ending};

pub(super) struct Nodes {
    discovery: Discovery,
    /// What the compiler has got.
    told: Mutex<HashMap<DiscoveredService, Option<Arc<[Node]>>>>,
    /// Registries that upstreams name and config.yaml does not: said once each.
    missing: Mutex<HashSet<Arc<str>>>,
    commands: PathBuf,
}

impl Nodes {
    pub(super) fn start(settings: &Settings, runtime: &Runtime) -> anyhow::Result<Arc<Nodes>> {
        let (prefix, ipv6) = (&settings.files.prefix, settings.apisix.enable_ipv6);
        let discovery = Discovery::start(&settings.discovery, runtime.handle(), prefix, ipv6);
        let discovery = discovery.map_err(|reason| {
            // It begins with the key.
            let key =
                reason.split(':').next().filter(|key| key.starts_with("discovery")).unwrap_or("discovery");
            anyhow::anyhow!("{}", settings.places.message(key, &reason))
        })?;
        let commands = commands::path(&settings.files.pid);
        Ok(Arc::new(Nodes { discovery, told: Mutex::default(), missing: Mutex::default(), commands }))
    }

    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.discovery.changes()
    }

    /// The services in use, and no others. Waits for the first answers about new ones, for at most `patience`.
    pub(super) async fn want(&self, services: &[DiscoveredService], patience: Duration) {
        for service in services.iter().filter(|service| !self.discovery.has(&service.registry)) {
            let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
            if missing.insert(service.registry.clone()) {
                error_log::log(
                    error_log::Level::Error,
                    format_args!(
                        "service {} has no nodes: config.yaml has no discovery.{}",
                        service.name, service.registry
                    ),
                );
            }
        }
        self.discovery.want(services, patience).await;
    }

    /// The services whose nodes differ from what the compiler got before.
    pub(super) fn take_changed(&self, services: &[DiscoveredService]) -> Vec<DiscoveredService> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let mut changed = Vec::new();
        let mut next = HashMap::new();
        for service in services {
            let nodes = self.discovery.nodes(service);
            if told.get(service) != Some(&nodes) {
                changed.push(service.clone());
            }
            next.insert(service.clone(), nodes);
        }
        *told = next;
        changed
    }

    /// The error says which registry has not answered yet.
    pub(super) fn is_ready(&self) -> Result<(), String> {
        self.discovery.is_ready()
    }

    /// `/v1/discovery/TYPE/dump` and `/v1/discovery/TYPE/show_dump_file`
    fn shown(&self, request: &AdminHead) -> Option<AdminResponse> {
        let path = request.decoded_path();
        let (kind, what) = path.strip_prefix("/v1/discovery/")?.split_once('/')?;
        if request.method != "GET" {
            return None;
        }
        match what {
            "dump" => Some(AdminResponse::json(200, &self.discovery.dump(kind)?)),
            "show_dump_file" if kind.starts_with("consul") => match self.discovery.dump_file(kind)? {
                None => Some(AdminResponse::text(503, "dump params is nil")),
                Some(file) => Some(match std::fs::read_to_string(&file) {
                    Ok(text) => AdminResponse::text(200, &text),
                    Err(error) => AdminResponse::text(503, &format!("{}: {error}", file.display())),
                }),
            },
            _ => None,
        }
    }
}

impl ServiceNodes for Nodes {
    fn of(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.discovery.nodes(service)
    }

    fn has(&self, registry: &str) -> bool {
        self.discovery.has(registry)
    }
}

impl ControlHooks for Nodes {
    fn discovered(&self, request: &AdminHead) -> Option<AdminResponse> {
        self.shown(request)
    }

    fn reload_plugins(&self) -> BoxFuture<'_, Result<(), String>> {
        commands::reload(&self.commands)
    }

    fn not_serving(&self) -> Option<&'static str> {
        ending::has_begun().then_some(ending::REASON)
    }
}
