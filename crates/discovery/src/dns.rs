//! Services in DNS: SRV records with their ports, weights and priorities, or the addresses of a name.
//!
//! Every service in use is looked up ahead of requests and again when its records expire.

mod records;

use std::{
    collections::HashMap,
    net::{IpAddr, SocketAddr},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use hickory_resolver::{
    TokioResolver,
    config::{ConnectionConfig, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts},
    net::runtime::TokioRuntimeProvider,
    system_conf::{parse_resolv_conf, read_system_conf},
};
use serde::Deserialize;
use serde_json::Value;
use tidegate_model::resources::{DiscoveredService, Node};
use tokio::{runtime::Handle, task::AbortHandle};

use crate::{
    conf::typed,
    known::Known,
    registry::{Registry, Start, log_error},
    retry::Retry,
};
use records::{Lookups, Order};

#[derive(Deserialize)]
struct Conf {
    #[serde(default)]
    servers: Vec<String>,
    resolv_conf: Option<String>,
    #[serde(default)]
    order: Vec<Order>,
}

/// A TTL of 0 must not become a busy loop.
const SHORTEST: Duration = Duration::from_secs(1);
/// As APISIX: for one try, and so many of them.
const TRY: Duration = Duration::from_secs(2);
const TRIES: usize = 5;

struct Dns {
    lookups: Lookups,
    known: Known,
    runtime: Handle,
    wanted: Mutex<HashMap<Arc<str>, Following>>,
    me: std::sync::Weak<Dns>,
}

struct Following {
    task: AbortHandle,
    /// An answer or a failure has come.
    attempted: bool,
}

pub(crate) fn start(conf: &Value, start: &Start) -> Result<Arc<dyn Registry>, String> {
    let conf: Conf = typed("dns", conf)?;
    let resolver = resolver(&conf)?;
    let lookups = Lookups::new(resolver, &conf.order, start.ipv6);
    Ok(Arc::new_cyclic(|me| Dns {
        lookups,
        known: Known::new(&start.signals),
        runtime: start.runtime.clone(),
        wanted: Mutex::default(),
        me: me.clone(),
    }))
}

fn resolver(conf: &Conf) -> Result<TokioResolver, String> {
    let (system, mut options) = match &conf.resolv_conf {
        Some(path) => {
            let wrong = |reason: String| format!("discovery.dns.resolv_conf: {path}: {reason}");
            let text = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
            parse_resolv_conf(text).map_err(|error| wrong(error.to_string()))?
        }
        // Its search domains count; its servers do not.
        None => read_system_conf().unwrap_or_default(),
    };
    let (domain, search, mut servers) = system.into_parts();
    if !conf.servers.is_empty() {
        servers = conf.servers.iter().map(|text| name_server(text)).collect::<Result<_, _>>()?;
    }
    if servers.is_empty() {
        return Err("discovery.dns.resolv_conf: no name server in it".to_owned());
    }
    configure(&mut options);
    let config = ResolverConfig::from_parts(domain, search, servers);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
        .with_options(options)
        .build()
        .map_err(|error| format!("discovery.dns: {error}"))
}

fn configure(options: &mut ResolverOpts) {
    options.timeout = TRY;
    options.attempts = TRIES - 1;
    options.use_hosts_file = ResolveHosts::Never;
    // Answers are kept here.
    options.cache_size = 0;
}

/// `127.0.0.1`, `127.0.0.1:8600`, `[::1]:53`.
fn name_server(text: &str) -> Result<NameServerConfig, String> {
    let bare = |text: &str| text.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let address = text.parse::<SocketAddr>().or_else(|_| bare(text).map(|ip| SocketAddr::new(ip, 53)));
    let address =
        address.map_err(|_| format!("discovery.dns.servers: {text} is not an address with a port"))?;
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()].into_iter().map(|mut connection| {
        connection.port = address.port();
        connection
    });
    Ok(NameServerConfig::new(address.ip(), true, connections.collect()))
}

impl Registry for Dns {
    fn nodes(&self, service: &DiscoveredService) -> Option<Arc<[Node]>> {
        self.known.nodes(&service.name)
    }

    fn want(&self, services: &[DiscoveredService]) {
        let mut wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut gone = Vec::new();
        wanted.retain(|name, following| {
            let kept = services.iter().any(|service| service.name == *name);
            if !kept {
                following.task.abort();
                gone.push(name.clone());
            }
            kept
        });
        for service in services {
            if !wanted.contains_key(&service.name)
                && let Some(me) = self.me.upgrade()
            {
                let task = self.runtime.spawn(me.follow(service.name.clone())).abort_handle();
                wanted.insert(service.name.clone(), Following { task, attempted: false });
            }
        }
        drop(wanted);
        if !gone.is_empty() {
            self.known.update(0, |services| services.retain(|name, _| !gone.iter().any(|it| **it == **name)));
        }
    }

    fn is_settled(&self, service: &DiscoveredService) -> bool {
        let wanted = self.wanted.lock().unwrap_or_else(PoisonError::into_inner);
        wanted.get(&service.name).is_none_or(|following| following.attempted)
    }
}

impl Dns {
    async fn follow(self: Arc<Self>, name: Arc<str>) {
        let mut retry = Retry::default();
        let mut last = None;
        loop {
            let answer = self.lookups.nodes(&name, &mut last).await;
            if let Some(following) = self.wanted.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&name)
            {
                following.attempted = true;
            }
            match answer {
                Ok(answer) => {
                    retry.reset();
                    self.known.update(0, |services| {
                        services.insert(name.to_string(), answer.nodes.into());
                    });
                    tokio::time::sleep(answer.valid_for.max(SHORTEST)).await;
                }
                Err(reason) => {
                    if retry.is_first() {
                        log_error("dns", &format!("{name}: {reason}"));
                    }
                    self.known.failed(0);
                    retry.wait().await;
                }
            }
        }
    }
}
