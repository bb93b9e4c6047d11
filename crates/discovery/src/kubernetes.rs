//! Kubernetes: the endpoints of services, from the lists and watches of one or several clusters.
//!
//! A service is `NAMESPACE/NAME:PORT`, with several clusters `ID/NAMESPACE/NAME:PORT`. The port is its name or, where it
//! has none, its number.

mod conf;
mod endpoints;
mod follow;

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Map, Value, json};
use tidegate_model::resources::{DiscoveredService, Node};

use crate::{
    conf::typed,
    known::Known,
    registry::{Registry, Start},
    shown,
};
use conf::{Cluster, Conf};

use self::follow::Followed;

struct Kubernetes {
    shown: Value,
    /// Without ids there is one, named "".
    clusters: BTreeMap<String, Arc<Followed>>,
}

pub(crate) fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let confs: Vec<Conf> = match conf {
        Value::Array(_) => typed("kubernetes", conf)?,
        _ => vec![typed("kubernetes", conf)?],
    };
    let mut clusters = BTreeMap::new();
    for conf in confs {
        let id = conf.id.clone().unwrap_or_default();
        let followed = Arc::new(Followed {
            cluster: Cluster::new(conf).map_err(|reason| format!("discovery.kubernetes: {reason}"))?,
            known: Known::new(&start.signals),
            listed: Default::default(),
        });
        if clusters.insert(id.clone(), followed.clone()).is_some() {
            return Err(format!("discovery.kubernetes: duplicate id {id}"));
        }
        start.runtime.spawn(follow::follow(followed));
    }
    Ok(Arc::new(Kubernetes { shown: shown::configuration(conf), clusters }))
}

impl Kubernetes {
    /// The cluster that a service is in, and its name there.
    fn place<'a>(&self, service: &'a DiscoveredService) -> Option<(&Arc<Followed>, &'a str)> {
        match self.clusters.get("") {
            Some(cluster) => Some((cluster, &service.name)),
            None => {
                let (id, name) = service.name.split_once('/')?;
                Some((self.clusters.get(id)?, name))
            }
        }
    }
}

impl Registry for Kubernetes {
    fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        let (cluster, name) = self.place(service)?;
        cluster.known.nodes(name)
    }

    fn is_settled(&self, service: &DiscoveredService) -> bool {
        self.place(service).is_none_or(|(cluster, _)| cluster.known.is_settled())
    }

    fn dump(&self) -> Option<Value> {
        let shown = self.clusters.iter().map(|(id, cluster)| {
            let mut shown = Map::new();
            if !id.is_empty() {
                shown.insert("id".to_owned(), json!(id));
            }
            shown.insert("endpoints".to_owned(), endpoints(&cluster.known));
            Value::Object(shown)
        });
        Some(json!({ "config": self.shown, "endpoints": shown.collect::<Vec<_>>() }))
    }

    fn is_ready(&self) -> Result<(), String> {
        let listed = |cluster: &Followed| cluster.listed.load(std::sync::atomic::Ordering::Relaxed);
        if self.clusters.values().all(|cluster| listed(cluster)) {
            return Ok(());
        }
        Err("kubernetes discovery not ready".to_owned())
    }
}

/// One entry per service; its value is a text, as in APISIX.
fn endpoints(known: &Known) -> Value {
    let mut services: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for (name, nodes) in known.all() {
        let Some((service, port)) = name.rsplit_once(':') else { continue };
        services.entry(service.to_owned()).or_default().insert(port.to_owned(), shown::nodes(&nodes));
    }
    let entry = |(name, ports)| json!({ "name": name, "value": Value::Object(ports).to_string() });
    services.into_iter().map(entry).collect()
}
