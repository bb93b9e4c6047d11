//! Consul's services: the instances whose checks pass (`/v1/health/service`).
//!
//! Two blocking queries wait for changes, of the catalog and of the states of checks. When either returns with a new
//! index, all services are fetched again, as APISIX does.

pub(crate) mod conf;
pub(crate) mod registry;

use std::{
    collections::{BTreeMap, HashSet},
    convert::Infallible,
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::KeptClient;
use tidegate_model::resources::Node;
use tidegate_protocol::uri::encoded_component;

use crate::{
    conf::typed,
    http,
    known::{MOST_NODES, Services, check_count},
    registry::{Registry, Start, log_error},
    retry::Retry,
};
use conf::{Common, Server, index_of};
use registry::{Followed, Source};

/// Consul changes in bursts: a check that passes is a change, and a service comes with several.
const GATHER: Duration = Duration::from_millis(50);

#[derive(Deserialize)]
struct Conf {
    #[serde(flatten)]
    common: Common,
    #[serde(flatten)]
    consul: Consul,
}

#[derive(Deserialize)]
struct Consul {
    sort_type: String,
    #[serde(default)]
    skip_services: Vec<String>,
}

pub(crate) fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let Conf { common, consul } = typed("consul", conf)?;
    registry::start(consul, common, conf, start)
}

impl Source for Consul {
    const KIND: &'static str = "consul";

    async fn rounds(
        &self,
        followed: &Followed<Self>,
        number: usize,
        server: &Server,
        retry: &mut Retry,
    ) -> Result<Infallible, String> {
        let (mut catalog, mut health) = (server.client(), server.client());
        loop {
            // The indices first: what changes while the services are fetched ends the next wait at once.
            let listed = catalog.get("/v1/catalog/services").await?;
            let names = http::good(&listed).map_err(|reason| format!("/v1/catalog/services: {reason}"))?;
            let states = health.get("/v1/health/state/any").await?;
            http::good(&states).map_err(|reason| format!("/v1/health/state/any: {reason}"))?;
            let services = self.fetch(followed, number, &names, &mut catalog).await?;
            followed.learn(number, services).await;
            retry.reset();
            if !followed.common.keepalive {
                tokio::time::sleep(followed.common.interval()).await;
                continue;
            }
            let (catalog_index, health_index) = (index_of(&listed), index_of(&states));
            loop {
                let wait = &followed.common;
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
}

impl Consul {
    /// A service that cannot be fetched keeps the nodes it had. The error says that there are too many.
    async fn fetch(
        &self,
        followed: &Followed<Self>,
        number: usize,
        names: &Value,
        client: &mut KeptClient,
    ) -> Result<Services, String> {
        let before = followed.known.of(number);
        let mut services = Services::new();
        let mut count = 0;
        for name in names.as_object().into_iter().flatten().map(|(name, _)| name) {
            if name == "consul" || self.skip_services.contains(name) {
                continue;
            }
            let target = format!("/v1/health/service/{}?passing=true", encoded_component(name));
            let fetched = client.get(&target).await.and_then(|answer| http::good(&answer));
            match fetched {
                Ok(entries) => {
                    let nodes = self.instances(&entries, followed.common.weight);
                    count += 1 + nodes.len();
                    check_count(count)?;
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
        Ok(services)
    }

    fn instances(&self, entries: &Value, weight: u32) -> Vec<Node> {
        let mut nodes: Vec<Node> = Vec::new();
        let mut seen = HashSet::new();
        for entry in entries.as_array().into_iter().flatten() {
            let Some(service) = entry.get("Service") else { continue };
            let address = |of: Option<&Value>| {
                let text = of?.get("Address")?.as_str()?;
                (!text.is_empty()).then(|| text.to_owned())
            };
            // A service without an address is at its node's.
            let Some(host) = address(Some(service)).or_else(|| address(entry.get("Node"))) else { continue };
            let port = http::port(service.get("Port")).filter(|port| *port != 0).unwrap_or(80);
            if !seen.insert((host.clone(), port)) {
                continue;
            }
            if nodes.len() == MOST_NODES {
                break;
            }
            nodes.push(Node { host, port: Some(port), weight, max_conn: None, priority: 0, metadata: None });
        }
        match self.sort_type.as_str() {
            "host_sort" => nodes.sort_by(|a, b| a.host.cmp(&b.host)),
            "port_sort" => nodes.sort_by_key(|node| node.port),
            "combine_sort" => nodes.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port))),
            _ => {}
        }
        nodes
    }
}

/// Nodes by name, as consul_kv collects them.
pub(crate) type Collected = BTreeMap<String, Vec<Node>>;
