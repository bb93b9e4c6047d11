//! Nacos, API version 1: the healthy instances of each service in use.

mod login;

use std::sync::{Arc, Mutex, PoisonError};

use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::http::{KeptClient, KeptResponse};
use tidegate_model::resources::{DiscoveredService, Node};
use tidegate_protocol::uri::encoded_component;
use tokio::sync::Notify;

use crate::{
    conf::typed,
    hosts::{Hosts, in_turn},
    http,
    known::{Known, MOST_NODES, Services},
    registry::{Registry, Start, log_error},
    retry::Retry,
    shown,
};
use login::Login;

#[derive(Deserialize)]
struct Conf {
    #[serde(flatten)]
    hosts: Hosts,
    access_key: String,
    secret_key: String,
}

struct Nacos {
    hosts: Hosts,
    known: Known,
    wanted: Mutex<Vec<DiscoveredService>>,
    /// Services that were requested in vain: they are not waited for again.
    tried: Mutex<Vec<DiscoveredService>>,
    more: Notify,
}

struct Host {
    client: KeptClient,
    login: Login,
}

pub(crate) fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let Conf { hosts, access_key, secret_key } = typed("nacos", conf)?;
    let servers = hosts.clients("nacos", true, |client, user| Host {
        client,
        login: Login::new(user, &access_key, &secret_key),
    })?;
    let nacos = Arc::new(Nacos {
        hosts,
        known: Known::new(&start.signals),
        wanted: Mutex::default(),
        tried: Mutex::default(),
        more: Notify::new(),
    });
    start.runtime.spawn(nacos.clone().follow(servers));
    Ok(nacos)
}

impl Registry for Nacos {
    fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.known.nodes(&key(service))
    }

    fn want(&self, services: &[DiscoveredService]) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let more = services.iter().any(|service| !wanted.contains(service));
        *wanted = services.to_vec();
        drop(wanted);
        if more {
            self.more.notify_one();
        }
    }

    fn is_settled(&self, service: &DiscoveredService) -> bool {
        let tried = self.tried.lock().unwrap_or_else(PoisonError::into_inner);
        tried.contains(service) || self.known.nodes(&key(service)).is_some()
    }

    fn dump(&self) -> Option<Value> {
        let all = self.known.all();
        let service = |(name, nodes): (&String, &Arc<[Node]>)| {
            // gRPC and HTTP ports of a service are apart; it is one service nevertheless.
            let name = name.trim_start_matches("grpc:").to_owned();
            (name, json!({ "nodes": shown::nodes(nodes) }))
        };
        Some(json!({ "services": all.iter().map(service).collect::<Map<String, Value>>() }))
    }
}

/// As APISIX names services of the one registry of config.yaml.
fn key(service: &DiscoveredService) -> String {
    let scheme = if service.grpc { "grpc:" } else { "" };
    format!("{scheme}default/{}/{}/{}", namespace(service), group(service), service.name)
}

fn namespace(service: &DiscoveredService) -> &str {
    service.namespace.as_deref().unwrap_or("public")
}

fn group(service: &DiscoveredService) -> &str {
    service.group.as_deref().unwrap_or("DEFAULT_GROUP")
}

impl Nacos {
    async fn follow(self: Arc<Self>, mut hosts: Vec<Host>) {
        let mut retry = Retry::default();
        loop {
            let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).clone();
            if self.fetch(&wanted, &mut hosts, retry.is_first()).await {
                retry.reset();
                let interval = self.hosts.interval();
                let _ = tokio::time::timeout(interval, self.more.notified()).await;
            } else {
                *self.tried.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
                self.known.failed(0);
                // A service that is new does not wait for the end of a pause.
                tokio::select! {
                    () = retry.wait() => {}
                    () = self.more.notified() => {}
                }
            }
        }
    }

    /// Asks the hosts in turn, beginning anywhere; whether one of them answered.
    async fn fetch(&self, wanted: &[DiscoveredService], hosts: &mut [Host], log: bool) -> bool {
        for at in in_turn(hosts.len()) {
            let Some(host) = hosts.get_mut(at) else { continue };
            match self.fetch_from(host, wanted).await {
                Ok(()) => return true,
                Err(reason) if log => log_error("nacos", &format!("{}: {reason}", host.client.server())),
                Err(_) => {}
            }
        }
        false
    }

    /// A service that the server refuses keeps the nodes it had, and does not block others.
    async fn fetch_from(&self, host: &mut Host, wanted: &[DiscoveredService]) -> Result<(), String> {
        host.login.renew(&mut host.client).await?;
        let mut fetched = Services::new();
        let mut refused = Vec::new();
        for service in wanted {
            let document = http::good(&self.ask(host, service).await?);
            match document {
                Ok(document) => {
                    let instances = document.get("hosts").and_then(Value::as_array);
                    let nodes = instances.into_iter().flatten().filter_map(|it| self.node(it, service.grpc));
                    fetched.insert(key(service), nodes.take(MOST_NODES).collect());
                }
                Err(reason) => refused.push(format!("service {}: {reason}", service.name)),
            }
        }
        if fetched.is_empty() && !refused.is_empty() {
            return Err(refused.join(", "));
        }
        for reason in &refused {
            log_error("nacos", &format!("{}: {reason}", host.client.server()));
        }
        if !refused.is_empty() {
            *self.tried.lock().unwrap_or_else(PoisonError::into_inner) = wanted.to_vec();
        }
        self.known.update(0, |services| {
            services.retain(|name, _| wanted.iter().any(|service| key(service) == *name));
            services.extend(fetched);
        });
        Ok(())
    }

    async fn ask(&self, host: &mut Host, service: &DiscoveredService) -> Result<KeptResponse, String> {
        let (namespace, group) = (namespace(service), group(service));
        let target = format!(
            "/ns/instance/list?healthyOnly=true&serviceName={}&namespaceId={}&groupName={}{}",
            encoded_component(&service.name),
            encoded_component(namespace),
            encoded_component(group),
            host.login.arguments(group, &service.name),
        );
        let answer = host.client.get(&target).await?;
        if answer.status == 403 {
            // The token may have ended early, with a restart of the server.
            host.login.forget();
        }
        Ok(answer)
    }

    /// `None`: switched off, or without an address.
    fn node(&self, instance: &Value, grpc: bool) -> Option<Node> {
        let off = |name: &str| instance.get(name) == Some(&Value::Bool(false));
        if off("enabled") || off("healthy") {
            return None;
        }
        let grpc_port = http::port(instance.pointer("/metadata/gRPC_port")).filter(|_| grpc);
        Some(Node {
            host: instance.get("ip")?.as_str()?.to_owned(),
            port: Some(grpc_port.or_else(|| http::port(instance.get("port")))?),
            weight: http::weight(instance.get("weight"), self.hosts.weight),
            max_conn: None,
            priority: 0,
            metadata: None,
        })
    }
}
