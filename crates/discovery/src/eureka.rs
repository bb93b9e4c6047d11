//! Eureka: the whole registry, fetched again and again.

use std::{collections::BTreeMap, sync::Arc};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use tidegate_clients::http::KeptClient;
use tidegate_model::resources::{DiscoveredService, Node};

use crate::{
    conf::typed,
    hosts::{Hosts, in_turn},
    http,
    known::{Known, MOST_NODES, Services},
    registry::{Registry, Start, log_error},
    retry::Retry,
    shown,
};

struct Eureka {
    hosts: Hosts,
    shown: Value,
    known: Known,
}

pub(crate) fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let hosts: Hosts = typed("eureka", conf)?;
    // As APISIX: certificates of Eureka servers are mostly self-signed.
    let clients = hosts.clients("eureka", false, |mut client, user| {
        if let Some(user) = user {
            client.set_header("Authorization", format!("Basic {}", STANDARD.encode(user)));
        }
        client
    })?;
    let shown = shown::configuration(conf);
    let eureka = Arc::new(Eureka { hosts, shown, known: Known::new(&start.signals) });
    start.runtime.spawn(eureka.clone().follow(clients));
    Ok(eureka)
}

impl Registry for Eureka {
    fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.known.nodes(&service.name)
    }

    fn is_settled(&self, _: &DiscoveredService) -> bool {
        self.known.is_settled()
    }

    fn dump(&self) -> Option<Value> {
        Some(json!({ "config": self.shown, "services": shown::services(&self.known.all()) }))
    }
}

impl Eureka {
    async fn follow(self: Arc<Self>, mut clients: Vec<KeptClient>) {
        let mut retry = Retry::default();
        loop {
            match self.fetch(&mut clients, retry.is_first()).await {
                Some(services) => {
                    self.known.set(0, services);
                    retry.reset();
                    tokio::time::sleep(self.hosts.interval()).await;
                }
                None => {
                    self.known.failed(0);
                    retry.wait().await;
                }
            }
        }
    }

    /// The answer of the first server that gives one, beginning anywhere.
    async fn fetch(&self, clients: &mut [KeptClient], log: bool) -> Option<Services> {
        for at in in_turn(clients.len()) {
            let client = clients.get_mut(at)?;
            let answer = client.get("/apps").await.and_then(|answer| http::good(&answer));
            match answer.and_then(|document| self.services(&document)) {
                Ok(services) => return Some(services),
                Err(reason) if log => log_error("eureka", &format!("{}: {reason}", client.server())),
                Err(_) => {}
            }
        }
        None
    }

    fn services(&self, document: &Value) -> Result<Services, String> {
        let applications = document.pointer("/applications").ok_or("response has no applications")?;
        let mut services: BTreeMap<String, Vec<Node>> = BTreeMap::new();
        for application in one_or_many(applications.get("application")) {
            let Some(name) = application.get("name").and_then(Value::as_str) else { continue };
            let nodes = one_or_many(application.get("instance")).filter_map(|it| self.node(it));
            let known = services.entry(name.to_owned()).or_default();
            known.extend(nodes.take(MOST_NODES - known.len()));
        }
        services.retain(|_, nodes| !nodes.is_empty());
        Ok(services.into_iter().map(|(name, nodes)| (name, nodes.into())).collect())
    }

    /// `None`: not up, or without a port.
    fn node(&self, instance: &Value) -> Option<Node> {
        let text = |name: &str| instance.get(name).and_then(Value::as_str);
        let overridden = text("overriddenstatus").or(text("overriddenStatus"));
        let status = overridden.filter(|status| *status != "UNKNOWN").or(text("status"));
        if status != Some("UP") {
            return None;
        }
        let port = port(instance.get("securePort")).or_else(|| port(instance.get("port")))?;
        let mut metadata = instance.get("metadata").filter(|metadata| metadata.is_object()).cloned();
        let weight = http::weight(metadata.as_ref().and_then(|it| it.get("weight")), self.hosts.weight);
        if let Some(metadata) = metadata.as_mut().and_then(Value::as_object_mut) {
            metadata.remove("weight");
        }
        Some(Node {
            host: text("ipAddr")?.to_owned(),
            port: Some(port),
            weight,
            max_conn: None,
            priority: 0,
            metadata,
        })
    }
}

/// `{"$": 8761, "@enabled": "true"}`
fn port(field: Option<&Value>) -> Option<u16> {
    let enabled = match field?.get("@enabled")? {
        Value::Bool(enabled) => *enabled,
        Value::String(text) => text == "true",
        _ => false,
    };
    http::port(field?.get("$").filter(|_| enabled))
}

/// Documents made from XML have a list of one without its brackets.
fn one_or_many(field: Option<&Value>) -> impl Iterator<Item = &Value> {
    let (many, one) = match field {
        Some(Value::Array(items)) => (items.as_slice(), None),
        Some(one @ Value::Object(_)) => (Default::default(), Some(one)),
        _ => (Default::default(), None),
    };
    many.iter().chain(one)
}
