//! From Endpoints and EndpointSlice objects to nodes.

use std::collections::BTreeMap;

use serde_json::Value;
use tidegate_model::resources::Node;

use super::conf::Cluster;
use crate::{
    http,
    known::{MOST_NODES, Services, check_count},
};

/// What an object says: the service it belongs to, and its nodes by port.
pub(super) struct Part {
    /// `NAMESPACE/SERVICE`
    pub service: String,
    /// Distinguishes the slices of a service.
    pub name: String,
    pub ports: Ports,
}

/// Objects by service and name. Endpoints have one object per service, slices several.
#[derive(Default)]
pub(super) struct Objects {
    services: BTreeMap<String, BTreeMap<String, Ports>>,
    /// Of objects and their nodes.
    count: usize,
}

type Ports = BTreeMap<String, Vec<Node>>;

/// An object counts with its ports and nodes.
fn count(ports: &Ports) -> usize {
    1 + ports.values().map(|nodes| 1 + nodes.len()).sum::<usize>()
}

impl Objects {
    /// The error says that there are too many.
    pub(super) fn put(&mut self, part: Part) -> Result<(), String> {
        self.count += count(&part.ports);
        let before = self.services.entry(part.service).or_default().insert(part.name, part.ports);
        self.count -= before.as_ref().map_or(0, count);
        check_count(self.count)
    }

    pub(super) fn remove(&mut self, part: &Part) {
        if let Some(parts) = self.services.get_mut(&part.service) {
            self.count -= parts.remove(&part.name).as_ref().map_or(0, count);
            if parts.is_empty() {
                self.services.remove(&part.service);
            }
        }
    }

    /// All services, or one, with the parts put together.
    pub(super) fn services(&self, only: Option<&str>) -> Services {
        let mut services = Services::new();
        let chosen = self.services.iter().filter(|(service, _)| only.is_none_or(|only| only == *service));
        for (service, parts) in chosen {
            let mut ports: BTreeMap<&String, Vec<Node>> = BTreeMap::new();
            for (port, nodes) in parts.values().flatten() {
                ports.entry(port).or_default().extend(nodes.iter().cloned());
            }
            for (port, mut nodes) in ports {
                nodes.sort_by(|a, b| (&a.host, a.port).cmp(&(&b.host, b.port)));
                // An address may be in two slices while it moves from one to the other.
                nodes.dedup_by(|a, b| (&a.host, a.port) == (&b.host, b.port));
                nodes.truncate(MOST_NODES);
                services.insert(format!("{service}:{port}"), nodes.into());
            }
        }
        services
    }
}

/// `None`: an object of another namespace, or one that says nothing usable.
pub(super) fn part(object: &Value, cluster: &Cluster) -> Option<Part> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str);
    let (name, namespace) = (text("/metadata/name")?, text("/metadata/namespace")?);
    if !cluster.has_namespace(namespace) {
        return None;
    }
    let (service, ports) = if cluster.slices {
        (text("/metadata/labels/kubernetes.io~1service-name")?, slice(object, cluster.weight))
    } else {
        (name, subsets(object, cluster.weight))
    };
    Some(Part { service: format!("{namespace}/{service}"), name: name.to_owned(), ports })
}

fn subsets(object: &Value, weight: u32) -> Ports {
    let mut ports = Ports::new();
    for subset in list(object.get("subsets")) {
        let addresses: Vec<&str> = list(subset.get("addresses"))
            .filter_map(|address| address.get("ip").and_then(Value::as_str))
            .collect();
        add(&mut ports, subset, &addresses, weight);
    }
    ports
}

fn slice(object: &Value, weight: u32) -> Ports {
    let ready = |endpoint: &&Value| endpoint.pointer("/conditions/ready") == Some(&Value::Bool(true));
    let addresses: Vec<&str> = list(object.get("endpoints"))
        .filter(ready)
        .flat_map(|endpoint| list(endpoint.get("addresses")))
        .filter_map(Value::as_str)
        .collect();
    let mut ports = Ports::new();
    add(&mut ports, object, &addresses, weight);
    ports
}

/// Each address at each port of `holder`.
fn add(ports: &mut Ports, holder: &Value, addresses: &[&str], weight: u32) {
    // Each of thousands of ports may have thousands of addresses.
    let mut room = MOST_NODES.saturating_sub(ports.values().map(Vec::len).sum());
    for port in list(holder.get("ports")) {
        let addresses = addresses.get(..room).unwrap_or(addresses);
        room -= addresses.len();
        let Some(number) = http::port(port.get("port")) else { continue };
        // Unnamed ports have no name in Endpoints and an empty one in slices.
        let named = port.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let name = named.map_or_else(|| number.to_string(), str::to_owned);
        ports.entry(name).or_default().extend(addresses.iter().map(|address| Node {
            host: (*address).to_owned(),
            port: Some(number),
            weight,
            max_conn: None,
            priority: 0,
            metadata: None,
        }));
    }
}

fn list(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}
