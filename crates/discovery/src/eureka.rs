//! Eureka: the whole registry, fetched again and again.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use model::resources::{DiscoveredService, Node};
use plugins::common::http_client::Endpoint;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::{
    Registry, Start,
    conf::typed,
    http,
    http::Client,
    known::{Known, Services},
    log_error,
    retry::Retry,
    shown,
};

#[derive(Deserialize)]
struct Conf {
    host: Vec<String>,
    /// Seconds.
    fetch_interval: u64,
    #[serde(default)]
    prefix: String,
    weight: u32,
    timeout: Timeout,
}

/// Milliseconds.
#[derive(Clone, Copy, Deserialize)]
struct Timeout {
    connect: u64,
    read: u64,
}

struct Eureka {
    conf: Conf,
    shown: Value,
    known: Known,
}

pub fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let typed: Conf = typed("eureka", conf)?;
    let clients = typed.host.iter().map(|url| client(url, &typed)).collect::<Result<Vec<_>, _>>()?;
    let eureka = Arc::new(Eureka {
        conf: typed,
        shown: shown::configuration(conf),
        known: Known::new(&start.signals),
    });
    start.runtime.spawn(eureka.clone().follow(clients));
    Ok(eureka)
}

fn client(url: &str, conf: &Conf) -> Result<Client, String> {
    let (user, url) = http::split_user(url);
    let endpoint = Endpoint::parse(&format!("{url}{}", conf.prefix));
    let endpoint = endpoint.map_err(|reason| format!("discovery.eureka.host: {reason}"))?;
    // As APISIX: certificates of Eureka servers are rarely anybody's but their own.
    let mut client = Client::new(endpoint, false, conf.timeout.connect, conf.timeout.read);
    if let Some(user) = user {
        client.set_header("Authorization", format!("Basic {}", STANDARD.encode(user)));
    }
    Ok(client)
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
    async fn follow(self: Arc<Self>, mut clients: Vec<Client>) {
        let mut retry = Retry::default();
        loop {
            match self.fetch(&mut clients, retry.is_first()).await {
                Some(services) => {
                    self.known.set(0, services);
                    retry.reset();
                    tokio::time::sleep(Duration::from_secs(self.conf.fetch_interval)).await;
                }
                None => {
                    self.known.failed(0);
                    retry.wait().await;
                }
            }
        }
    }

    /// The answer of the first server that gives one, beginning anywhere.
    async fn fetch(&self, clients: &mut [Client], log: bool) -> Option<Services> {
        let count = clients.len();
        let first = rand::random_range(0..count.max(1));
        for turn in 0..count {
            let client = clients.get_mut((first + turn) % count)?;
            let answer = client.get("/apps").await.and_then(|answer| answer.good());
            match answer.and_then(|document| self.services(&document)) {
                Ok(services) => return Some(services),
                Err(reason) if log => log_error("eureka", &format!("{}: {reason}", client.server())),
                Err(_) => {}
            }
        }
        None
    }

    fn services(&self, document: &Value) -> Result<Services, String> {
        let applications = document.pointer("/applications").ok_or("answer has no applications")?;
        let mut services: BTreeMap<String, Vec<Node>> = BTreeMap::new();
        for application in one_or_many(applications.get("application")) {
            let Some(name) = application.get("name").and_then(Value::as_str) else { continue };
            let nodes = one_or_many(application.get("instance")).filter_map(|it| self.node(it));
            services.entry(name.to_owned()).or_default().extend(nodes);
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
        let weight = http::weight(metadata.as_ref().and_then(|it| it.get("weight")), self.conf.weight);
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
