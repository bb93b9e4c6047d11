//! Upstreams, their nodes and their health checks. Times are in seconds.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::{Map, Value};

use super::read;
use crate::check::{node_fault, parse_address};

/// The most attempts after the first that `retries` can set: choosing among very many nodes takes longer with each tried
/// one.
pub const MOST_RETRIES: u32 = 255;

/// Nodes and how they are balanced.
#[derive(Clone, Debug, Deserialize)]
pub struct Upstream {
    /// Key in the store; `None` inside a route or service.
    #[serde(default, deserialize_with = "read::id")]
    pub id: Option<String>,
    /// For people.
    pub name: Option<String>,
    /// The balancer: `roundrobin`, `chash`, `ewma`, `least_conn` or one of the user's own.
    #[serde(rename = "type", default = "round_robin")]
    pub balancer: String,
    /// For chash: `vars`, `header`, `cookie`, `consumer` or `vars_combinations`.
    #[serde(default = "vars")]
    pub hash_on: String,
    /// For chash: the name of what is hashed.
    pub key: Option<String>,
    /// `None` when nodes come from service discovery.
    #[serde(default, deserialize_with = "nodes")]
    pub nodes: Option<Vec<Node>>,
    /// The service whose nodes a registry knows.
    pub service_name: Option<String>,
    /// The registry, a key of `discovery` in config.yaml.
    pub discovery_type: Option<String>,
    /// Further arguments for the registry.
    pub discovery_args: Option<Value>,
    /// `http`, `https`, `grpc` or `grpcs`.
    #[serde(default = "http")]
    pub scheme: String,
    /// Which host nodes see: `pass`, `node` or `rewrite`.
    #[serde(default = "pass")]
    pub pass_host: String,
    /// The host for `rewrite`.
    pub upstream_host: Option<String>,
    /// Ours: `v1` or `v2`, the PROXY header that connections to the nodes begin with.
    pub proxy_protocol: Option<String>,
    /// Attempts after the first; unset: one for each further node.
    pub retries: Option<u32>,
    /// Seconds after which no further attempt begins; unset or 0: no limit.
    pub retry_timeout: Option<f64>,
    /// Of its nodes.
    pub timeout: Option<Timeout>,
    /// How idle connections are kept.
    pub keepalive_pool: Option<KeepalivePool>,
    /// For `https` and `grpcs`.
    pub tls: Option<UpstreamTls>,
    /// Health checks.
    pub checks: Option<Checks>,
    /// For people.
    #[serde(default, deserialize_with = "read::table")]
    pub labels: Map<String, Value>,
}

/// The service that an upstream asks a registry for.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DiscoveredService {
    /// `discovery_type`; empty when the upstream does not set it.
    pub registry: Arc<str>,
    /// `service_name`.
    pub name: Arc<str>,
    /// `discovery_args.namespace_id` and `group_name`, of Nacos.
    pub namespace: Option<Arc<str>>,
    /// `discovery_args.group_name`.
    pub group: Option<Arc<str>>,
    /// Registries may know another port for gRPC.
    pub grpc: bool,
}

impl Upstream {
    /// `None`: the upstream has its own nodes.
    pub fn discovered(&self) -> Option<DiscoveredService> {
        let name = self.service_name.as_deref()?;
        let argument = |name: &str| {
            let value = self.discovery_args.as_ref()?.get(name)?.as_str()?;
            Some(Arc::from(value))
        };
        Some(DiscoveredService {
            registry: self.discovery_type.as_deref().unwrap_or_default().into(),
            name: name.into(),
            namespace: argument("namespace_id"),
            group: argument("group_name"),
            grpc: matches!(self.scheme.as_str(), "grpc" | "grpcs"),
        })
    }
}

/// A server, or a name that stands for several.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Node {
    /// As written: IPv6 in brackets.
    pub host: String,
    /// Unset: that of the scheme.
    pub port: Option<u16>,
    /// Its share of the requests; 0: none.
    pub weight: u32,
    /// Ours: how many requests the node gets at a time.
    pub max_conn: Option<u32>,
    /// Nodes of lower priority are used when none of a higher one is left.
    #[serde(default)]
    pub priority: i32,
    /// Kept for clients of the Admin API.
    pub metadata: Option<Value>,
}

/// Seconds.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct Timeout {
    /// To connect, TLS included.
    pub connect: f64,
    /// Between two writes that make progress.
    pub send: f64,
    /// Between two reads.
    pub read: f64,
}

/// How idle connections of each worker are kept.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
pub struct KeepalivePool {
    /// The most idle ones.
    #[serde(default = "pool_size")]
    pub size: u32,
    /// Seconds until an idle one is closed.
    #[serde(default = "pool_idle_timeout")]
    pub idle_timeout: f64,
    /// Requests until a connection is closed.
    #[serde(default = "pool_requests")]
    pub requests: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct UpstreamTls {
    #[serde(default, deserialize_with = "read::id")]
    pub client_cert_id: Option<String>,
    pub client_cert: Option<String>,
    pub client_key: Option<String>,
    #[serde(default)]
    pub verify: bool,
}

/// Health checks of nodes.
#[derive(Clone, Debug, Deserialize)]
pub struct Checks {
    /// Probes.
    pub active: Option<ActiveCheck>,
    /// What requests tell about nodes.
    pub passive: Option<PassiveCheck>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ActiveCheck {
    #[serde(rename = "type", default = "http")]
    pub kind: String,
    #[serde(default = "one_second")]
    pub timeout: f64,
    #[serde(default = "concurrency")]
    pub concurrency: u32,
    #[serde(default = "get")]
    pub http_method: String,
    #[serde(default = "root")]
    pub http_path: String,
    #[serde(default)]
    pub http_req_body: String,
    pub host: Option<String>,
    pub port: Option<u16>,
    #[serde(default = "yes")]
    pub https_verify_certificate: bool,
    #[serde(default, deserialize_with = "read::list")]
    pub req_headers: Vec<String>,
    /// Without it, nodes found unhealthy are not probed again.
    pub healthy: Option<ActiveHealthy>,
    /// Without it, healthy nodes are not probed.
    pub unhealthy: Option<ActiveUnhealthy>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ActiveHealthy {
    #[serde(default = "one")]
    pub interval: u64,
    #[serde(default = "two")]
    pub successes: u32,
    #[serde(default = "active_healthy_statuses")]
    pub http_statuses: Vec<u16>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ActiveUnhealthy {
    #[serde(default = "one")]
    pub interval: u64,
    #[serde(default = "five")]
    pub http_failures: u32,
    #[serde(default = "two")]
    pub tcp_failures: u32,
    #[serde(default = "three")]
    pub timeouts: u32,
    #[serde(default = "active_unhealthy_statuses")]
    pub http_statuses: Vec<u16>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PassiveCheck {
    #[serde(rename = "type", default = "http")]
    pub kind: String,
    pub healthy: Option<PassiveHealthy>,
    pub unhealthy: Option<PassiveUnhealthy>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PassiveHealthy {
    #[serde(default = "five")]
    pub successes: u32,
    #[serde(default = "passive_healthy_statuses")]
    pub http_statuses: Vec<u16>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct PassiveUnhealthy {
    #[serde(default = "five")]
    pub http_failures: u32,
    #[serde(default = "two")]
    pub tcp_failures: u32,
    #[serde(default = "seven")]
    pub timeouts: u32,
    #[serde(default = "passive_unhealthy_statuses")]
    pub http_statuses: Vec<u16>,
}

/// Either a list of objects or a map from address to weight.
fn nodes<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Vec<Node>>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        Value::Object(entries) => {
            let node = |(address, weight): (&String, &Value)| {
                if let Some(fault) = node_fault(address) {
                    return Err(D::Error::custom(fault));
                }
                let (host, port) = parse_address(address);
                let port = port.map(u16::try_from).transpose();
                Ok(Node {
                    host: host.to_owned(),
                    port: port.map_err(|_| D::Error::custom(format!("{address}: invalid port")))?,
                    weight: serde_json::from_value(weight.clone())
                        .map_err(|error| D::Error::custom(format!("weight of {address}: {error}")))?,
                    max_conn: None,
                    priority: 0,
                    metadata: None,
                })
            };
            entries.iter().map(node).collect::<Result<_, _>>().map(Some)
        }
        list => serde_json::from_value(list).map(Some).map_err(D::Error::custom),
    }
}

macro_rules! defaults {
    ($($name:ident -> $type:ty = $value:expr;)+) => {
        $(fn $name() -> $type { $value })+
    };
}

defaults! {
    round_robin -> String = "roundrobin".into();
    vars -> String = "vars".into();
    http -> String = "http".into();
    pass -> String = "pass".into();
    get -> String = "GET".into();
    root -> String = "/".into();
    yes -> bool = true;
    one_second -> f64 = 1.0;
    concurrency -> u32 = 10;
    pool_size -> u32 = 320;
    pool_idle_timeout -> f64 = 60.0;
    pool_requests -> u64 = 1000;
    one -> u64 = 1;
    two -> u32 = 2;
    three -> u32 = 3;
    five -> u32 = 5;
    seven -> u32 = 7;
    active_healthy_statuses -> Vec<u16> = vec![200, 302];
    active_unhealthy_statuses -> Vec<u16> = vec![429, 404, 500, 501, 502, 503, 504, 505];
    passive_unhealthy_statuses -> Vec<u16> = vec![429, 500, 503];
    passive_healthy_statuses -> Vec<u16> = (200..=208).chain([226]).chain(300..=308).collect();
}
