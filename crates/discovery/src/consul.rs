//! Consul's services: the instances whose checks pass (`/v1/health/service`).
//!
//! Two blocking queries wait for changes, of the catalog and of the states of checks. When either returns with a new
//! index, all services are fetched again, as APISIX does.

pub mod conf;

use std::{collections::BTreeMap, path::PathBuf, sync::Arc, time::Duration};

use model::resources::{DiscoveredService, Node};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Registry, Start, conf::typed, http, http::Client, known::Known, known::Services, log_error, retry::Retry,
    shown,
};
use conf::{Common, Server};

/// Consul changes in bursts: a check that passes is a change, and a service comes with several.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Clone, Deserialize)]
struct Conf {
    #[serde(flatten)]
    common: Common,
    sort_type: String,
    #[serde(default)]
    skip_services: Vec<String>,
}

struct Consul {
    conf: Conf,
    shown: Value,
    known: Known,
}

pub fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let mut typed: Conf = typed("consul", conf)?;
    typed.common.place(&start.prefix);
    let servers = typed.common.servers("consul")?;
    let consul = Arc::new(Consul {
        conf: typed,
        shown: shown::configuration(conf),
        known: Known::new(&start.signals),
    });
    consul.conf.common.load_dump("consul", &consul.known);
    for (number, server) in servers.into_iter().enumerate() {
        start.runtime.spawn(consul.clone().follow(number, server));
    }
    Ok(consul)
}

impl Registry for Consul {
    fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.known.nodes(&service.name).or_else(|| self.conf.common.fallback())
    }

    fn is_settled(&self, _: &DiscoveredService) -> bool {
        self.known.is_settled()
    }

    fn dump(&self) -> Option<Value> {
        Some(json!({ "config": self.shown, "services": shown::services(&self.known.all()) }))
    }

    fn dump_file(&self) -> Option<PathBuf> {
        self.conf.common.dump.as_ref().map(|dump| dump.path.clone())
    }
}

impl Consul {
    async fn follow(self: Arc<Self>, number: usize, server: Server) {
        let mut retry = Retry::default();
        loop {
            match self.rounds(number, &server, &mut retry).await {
                Ok(never) => match never {},
                Err(reason) => {
                    if retry.is_first() {
                        log_error("consul", &format!("{}: {reason}", server.url));
                    }
                    self.known.failed(number);
                    retry.wait().await;
                }
            }
        }
    }

    /// Fetches, waits for a change, fetches again: until something fails.
    async fn rounds(
        &self,
        number: usize,
        server: &Server,
        retry: &mut Retry,
    ) -> Result<std::convert::Infallible, String> {
        let (mut catalog, mut health) = (server.client(), server.client());
        loop {
            // The indices first: what changes while the services are fetched ends the next wait at once.
            let listed = catalog.get("/v1/catalog/services").await?;
            let names = listed.good().map_err(|reason| format!("/v1/catalog/services: {reason}"))?;
            let states = health.get("/v1/health/state/any").await?;
            states.good().map_err(|reason| format!("/v1/health/state/any: {reason}"))?;
            self.fetch(number, &names, &mut catalog).await;
            retry.reset();
            if !self.conf.common.keepalive {
                tokio::time::sleep(self.conf.common.interval()).await;
                continue;
            }
            let (catalog_index, health_index) = (listed.index, states.index);
            loop {
                let wait = &self.conf.common;
                let changed = tokio::select! {
                    changed = wait.changed(&mut catalog, "/v1/catalog/services?", catalog_index) => changed?,
                    changed = wait.changed(&mut health, "/v1/health/state/any?", health_index) => changed?,
                };
                if changed {
                    break;
                }
            }
            tokio::time::sleep(GATHER).await;
        }
    }

    /// A service that cannot be fetched keeps the nodes it had.
    async fn fetch(&self, number: usize, names: &Value, client: &mut Client) {
        let before = self.known.of(number);
        let mut services = Services::new();
        for name in names.as_object().into_iter().flatten().map(|(name, _)| name) {
            if name == "consul" || self.conf.skip_services.contains(name) {
                continue;
            }
            let target = format!("/v1/health/service/{}?passing=true", http::encoded(name));
            let fetched = client.get(&target).await.and_then(|answer| answer.good());
            match fetched {
                Ok(entries) => {
                    let nodes = self.instances(&entries);
                    if !nodes.is_empty() {
                        services.insert(name.clone(), nodes.into());
                    }
                }
                Err(reason) => {
                    log_error("consul", &format!("service {name}: {reason}"));
                    services.extend(before.get(name).map(|nodes| (name.clone(), nodes.clone())));
                }
            }
        }
        let changed = services != before;
        self.known.set(number, services);
        if changed && let Some(dump) = &self.conf.common.dump {
            dump.write("consul", &self.known.all()).await;
        }
    }

    fn instances(&self, entries: &Value) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        for entry in entries.as_array().into_iter().flatten() {
            let Some(service) = entry.get("Service") else { continue };
            let address = |of: Option<&Value>| {
                let text = of?.get("Address")?.as_str()?;
                (!text.is_empty()).then(|| text.to_owned())
            };
            // A service without an address of its own is at its node's.
            let Some(host) = address(Some(service)).or_else(|| address(entry.get("Node"))) else { continue };
            let port = http::port(service.get("Port")).filter(|port| *port != 0).unwrap_or(80);
            if nodes.iter().any(|node| node.host == host && node.port == Some(port)) {
                continue;
            }
            let weight = self.conf.common.weight;
            nodes.push(Node { host, port: Some(port), weight, max_conn: None, priority: 0, metadata: None });
        }
        match self.conf.sort_type.as_str() {
            "host_sort" => nodes.sort_by(|a, b| a.host.cmp(&b.host)),
            "port_sort" => nodes.sort_by_key(|node| node.port),
            "combine_sort" => nodes.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port))),
            _ => {}
        }
        nodes
    }
}

/// Nodes by name, as consul_kv collects them.
pub type Collected = BTreeMap<String, Vec<Node>>;
