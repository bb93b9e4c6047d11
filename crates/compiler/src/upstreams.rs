//! Upstreams: as objects, and inline in routes and services.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use serde_json::{Value, json};
use smallvec::SmallVec;
use tidegate_balancing::{Algorithm, HashOn, NodeSpec, Upstream, UpstreamSpec, health};
use tidegate_model::{
    Document, Kind,
    resources::{self, DiscoveredService, MOST_RETRIES},
};
use tidegate_plugin_api::{
    Template, UpstreamHandle, Variable,
    upstream::{
        HashKey, KeepalivePool, Node, PassHost, ProxyProtocol, Scheme, Serves, StreamSide, TlsClient,
    },
};

use crate::{Compiler, object::Key, routes::timeouts, tls::Wanted};

impl Compiler {
    /// Rebuilds the upstream that an object is or holds; forgets it when there is none.
    pub(crate) fn build_upstream_of(&mut self, key: &Key) {
        let object = self.object(key.0, &key.1).cloned();
        let value = object.as_ref().and_then(|object| match key.0 {
            Kind::Upstream => Some((object.value(), (object.document.clone(), false))),
            _ => {
                let value = object.value().get("upstream").cloned()?;
                Some((Arc::new(value), (object.document.clone(), true)))
            }
        });
        let previous = self.upstreams.remove(key);
        if key.0 == Kind::Upstream {
            self.named = None;
        }
        self.forget_names(key);
        let (Some(object), Some((value, written))) = (object.filter(|object| object.fault.is_none()), value)
        else {
            return;
        };
        match self.compile_upstream(key, &value, written, (object.modified, previous.as_deref())) {
            Ok(handle) => {
                self.upstreams.insert(key.clone(), Arc::new(handle));
            }
            Err(reason) => self.problem(key, format!("upstream: {reason}")),
        }
    }

    pub(crate) fn compile_upstream(
        &mut self,
        key: &Key,
        value: &Value,
        (document, is_within): (Document, bool),
        (version, previous): (u64, Option<&UpstreamHandle>),
    ) -> Result<UpstreamHandle, String> {
        let conf = resources::Upstream::from_value(value)?;
        let scheme = scheme(&conf.scheme)?;
        let of_brokers = conf.scheme == "kafka" && conf.tls.is_some();
        let tls = self.tls_client(&conf, scheme.is_tls() || of_brokers)?;
        let stream = StreamSide {
            tls: self.tls_client(&conf, conf.scheme == "tls")?.map(|(_, config)| TlsClient { config }),
            timeouts: conf.timeout.map(timeouts),
        };
        let proxy_protocol = conf.proxy_protocol.as_deref().map(proxy_protocol).transpose()?;
        let mark = pool_mark(tls.as_ref().map(|(number, _)| *number), proxy_protocol);
        let discovered = conf.discovered().map(|service| self.discover(key, service));
        let configured = discovered.as_ref().or(conf.nodes.as_ref()).into_iter().flatten();
        let (mut nodes, specs): (SmallVec<[_; 1]>, Vec<_>) =
            configured.flat_map(|node| self.expand(key, node, scheme, &mark)).unzip();
        // Room for four is where one is pushed, and there may be 50,000 upstreams.
        nodes.shrink_to_fit();
        let spec = UpstreamSpec {
            nodes: specs,
            // Brokers say themselves where partitions are: nothing is balanced, and APISIX's examples have type none.
            algorithm: Algorithm::from_name(&conf.balancer)
                .or_else(|| (conf.scheme == "kafka").then(Algorithm::default))
                .ok_or_else(|| {
                    let types = tidegate_model::remedy::of_balancer(&conf.balancer);
                    format!("type {}: pickers written in Lua are not supported; {types}", conf.balancer)
                })?,
            hash_on: HashOn::from_name(&conf.hash_on).unwrap_or_default(),
            key: conf.key.as_deref().map(Box::from),
            checks: conf.checks.as_ref().map(|conf| Box::new(checks(conf, proxy_protocol))),
            pass_host: tidegate_balancing::PassHost::from_name(&conf.pass_host).unwrap_or_default(),
            upstream_host: conf.upstream_host.as_deref().map(Box::from),
        };
        let hash_key = (spec.algorithm == Algorithm::ConsistentHash).then(|| self.hash_key(key, &conf));
        Ok(UpstreamHandle {
            name: format!("{}/{}", key.0.directory(), key.1).into(),
            balancer: Upstream::new(spec, self.options.workers, previous.map(|previous| &previous.balancer)),
            nodes,
            scheme,
            serves: serves(&conf.scheme),
            pass_host: match (conf.pass_host.as_str(), conf.upstream_host) {
                ("node", _) => PassHost::Node,
                ("rewrite", Some(host)) => PassHost::Rewrite(host.into()),
                _ => PassHost::Pass,
            },
            timeouts: conf.timeout.map_or(self.options.timeouts, timeouts),
            retries: conf.retries.map(|set| set.min(MOST_RETRIES)),
            retry_timeout_ms: conf.retry_timeout.map_or(0, |seconds| (seconds * 1000.0) as u64),
            keepalive: conf.keepalive_pool.map_or(self.options.keepalive, |pool| KeepalivePool {
                size: pool.size as usize,
                idle_timeout_ms: (pool.idle_timeout * 1000.0) as u64,
                requests: u32::try_from(pool.requests).unwrap_or(u32::MAX),
            }),
            proxy_protocol,
            hash_key: hash_key.map(Box::new),
            stream: (stream.tls.is_some() || stream.timeouts.is_some()).then(|| Box::new(stream)),
            tls: tls.map(|(_, config)| TlsClient { config: speaking(scheme, config) }),
            is_within,
            document,
            version,
        })
    }

    /// The nodes of a service as far as they are known; the object is built again when they change.
    fn discover(&mut self, key: &Key, service: DiscoveredService) -> Vec<resources::Node> {
        if !self.trial && !self.nodes.has(&service.registry) {
            // The log has it once for all services of the registry.
            let text = format!(
                "service {} has no nodes, and requests for it are answered 503: config.yaml has no discovery.{}",
                service.name, service.registry
            );
            self.keep_remark(key, text);
        }
        let nodes = self.nodes.of(&service).map(|nodes| nodes.iter().map(bracketed).collect());
        self.services_of.entry(key.clone()).or_default().insert(service.clone());
        self.services.entry(service).or_default().insert(key.clone());
        nodes.unwrap_or_default()
    }

    /// The object no longer waits for the addresses of any name, nor for the nodes of a service.
    pub(crate) fn forget_names(&mut self, key: &Key) {
        for service in self.services_of.remove(key).into_iter().flatten() {
            if let Some(waiting) = self.services.get_mut(&service) {
                waiting.remove(key);
                if waiting.is_empty() {
                    self.services.remove(&service);
                }
            }
        }
        for name in self.names_of.remove(key).into_iter().flatten() {
            if let Some(waiting) = self.names.get_mut(&name) {
                waiting.remove(key);
                if waiting.is_empty() {
                    self.names.remove(&name);
                }
            }
        }
    }

    /// The settings, and the number that distinguishes them in pool names.
    fn tls_client(
        &mut self,
        conf: &resources::Upstream,
        is_tls: bool,
    ) -> Result<Option<(u64, Arc<rustls::ClientConfig>)>, String> {
        if !is_tls {
            return Ok(None);
        }
        let mut wanted = Wanted::default();
        if let Some(tls) = &conf.tls {
            wanted.verify = tls.verify;
            wanted.client = match (&tls.client_cert_id, &tls.client_cert, &tls.client_key) {
                (Some(id), _, _) => self.client_pair(id)?,
                (None, Some(cert), Some(key)) => {
                    let mut pair = json!({ "client_cert": cert, "client_key": key });
                    let waits = self.resolve(&mut pair)?;
                    let text = |name: &str| pair.get(name).and_then(Value::as_str).map(str::to_owned);
                    text("client_cert").zip(text("client_key")).filter(|_| !waits)
                }
                _ => None,
            };
        }
        self.tls.get(wanted).map(Some)
    }

    /// Certificate and key of the `ssl` resource that `client_cert_id` names. `None`: they wait for a secret, in a trial.
    fn client_pair(&self, id: &str) -> Result<Option<(String, String)>, String> {
        let object = self.object(Kind::Ssl, id).ok_or_else(|| format!("ssl {id} does not exist"))?;
        let mut value = Arc::unwrap_or_clone(object.value());
        let waits = self.resolve(&mut value)?;
        let ssl = resources::Ssl::from_value(&value)?;
        if ssl.kind != "client" {
            return Err(format!("ssl {id} is for servers: client_cert_id needs one with type client"));
        }
        Ok(Some((ssl.cert, ssl.key)).filter(|_| !waits))
    }

    /// A node for each address of the host; one without an address for a name that is not resolved.
    fn expand(
        &mut self,
        key: &Key,
        node: &resources::Node,
        scheme: Scheme,
        mark: &str,
    ) -> Vec<(Arc<Node>, Arc<NodeSpec>)> {
        let (host, written_port) = split_port(&node.host);
        let port = node.port.or(written_port).unwrap_or(scheme.default_port());
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        let addresses = self.addresses_of(key, bare);
        let host_header =
            if port == scheme.default_port() { host.to_owned() } else { format!("{host}:{port}") };
        let siblings = u32::try_from(addresses.len()).unwrap_or(u32::MAX);
        let at = |address: Option<IpAddr>| {
            let spec = NodeSpec {
                host: bare.into(),
                port,
                weight: node.weight,
                siblings,
                max_conn: node.max_conn,
                priority: node.priority,
                address,
                metadata: node.metadata.clone().map(Arc::new),
            };
            let ip: Box<str> = spec.place().into();
            let pool = format!("{}#{bare}#{ip}#{port}#{mark}", scheme.as_str());
            let address = address.map(|address| SocketAddr::new(address, port));
            let host_header = host_header.as_str().into();
            let node = |pool| Node { host: bare.into(), port, address, ip, host_header, pool };
            self.pools.share(pool, spec, node)
        };
        addresses.into_iter().map(at).collect()
    }

    /// The addresses of a host as far as they are known; the object is built again when they change.
    fn addresses_of(&mut self, key: &Key, host: &str) -> Vec<Option<IpAddr>> {
        if let Ok(address) = host.parse::<IpAddr>() {
            return vec![Some(address)];
        }
        let name: Arc<str> = Arc::from(host);
        self.names_of.entry(key.clone()).or_default().insert(name.clone());
        self.names.entry(name).or_default().insert(key.clone());
        match self.addresses.of(host) {
            Some(known) if !known.is_empty() => known.into_iter().map(Some).collect(),
            _ => vec![None],
        }
    }
}

/// Registries write IPv6 addresses without brackets.
fn bracketed(node: &resources::Node) -> resources::Node {
    let mut node = node.clone();
    if node.host.parse::<Ipv6Addr>().is_ok() {
        node.host = format!("[{}]", node.host);
    }
    node
}

/// What distinguishes the pools of one node: the TLS setting, and the header that connections begin with.
fn pool_mark(tls: Option<u64>, proxy_protocol: Option<ProxyProtocol>) -> String {
    let mut mark = tls.map_or_else(String::new, |number| number.to_string());
    if let Some(version) = proxy_protocol {
        mark.push('#');
        mark.push_str(version.as_str());
    }
    mark
}

fn proxy_protocol(name: &str) -> Result<ProxyProtocol, String> {
    ProxyProtocol::from_name(name)
        .ok_or_else(|| format!("proxy_protocol {name}: unknown value; expected one of: v1, v2"))
}

/// gRPC asks for HTTP/2 in the handshake.
fn speaking(scheme: Scheme, config: Arc<rustls::ClientConfig>) -> Arc<rustls::ClientConfig> {
    if !scheme.is_grpc() {
        return config;
    }
    let mut config = (*config).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Arc::new(config)
}

/// `host:port` where the port has no separate field. The colons of a bare IPv6 address do not count.
fn split_port(host: &str) -> (&str, Option<u16>) {
    match host.rsplit_once(':') {
        Some((name, port)) if !name.contains(':') || name.ends_with(']') => match port.parse() {
            Ok(port) => (name, Some(port)),
            Err(_) => (host, None),
        },
        _ => (host, None),
    }
}

fn scheme(name: &str) -> Result<Scheme, String> {
    match name {
        "http" => Ok(Scheme::Http),
        "https" => Ok(Scheme::Https),
        "grpc" => Ok(Scheme::Grpc),
        "grpcs" => Ok(Scheme::Grpcs),
        // No request is sent to these: see `serves`.
        "tcp" | "udp" | "tls" | "kafka" => Ok(Scheme::Http),
        other => Err(format!("unknown scheme {other}")),
    }
}

fn serves(scheme: &str) -> Serves {
    match scheme {
        "tcp" | "udp" | "tls" => Serves::Sessions,
        "kafka" => Serves::Messages,
        _ => Serves::Requests,
    }
}

pub(crate) fn hash_key(conf: &resources::Upstream) -> HashKey {
    let key = conf.key.as_deref().unwrap_or_default();
    match conf.hash_on.as_str() {
        "header" => HashKey::Variable(Variable::Header(key.to_ascii_lowercase().into())),
        "cookie" => {
            HashKey::Variable(Variable::resolve(&format!("cookie_{}", key.trim_start_matches("cookie_"))))
        }
        "consumer" => HashKey::Consumer,
        "vars_combinations" => HashKey::Combination(Template::compile(key)),
        _ => HashKey::Variable(Variable::of_text(key)),
    }
}

fn checks(conf: &resources::Checks, proxy_protocol: Option<ProxyProtocol>) -> health::Checks {
    let limit = |count: u32| u8::try_from(count).unwrap_or(u8::MAX);
    let mut checks = health::Checks::default();
    if let Some(active) = &conf.active {
        let target = &mut checks.active;
        target.kind = match active.kind.as_str() {
            "https" => health::ProbeKind::Https,
            "tcp" => health::ProbeKind::Tcp,
            _ => health::ProbeKind::Http,
        };
        target.timeout_ms = (active.timeout * 1000.0) as u64;
        target.concurrency = active.concurrency as usize;
        target.http_method = active.http_method.as_str().into();
        target.http_path = active.http_path.as_str().into();
        target.http_req_body = active.http_req_body.as_str().into();
        target.host = active.host.as_deref().map(Box::from);
        target.port = active.port;
        if let Some(version) = proxy_protocol {
            let mut header = Vec::new();
            version.write(None, &mut header);
            target.preface = header.into();
        }
        target.https_verify_certificate = active.https_verify_certificate;
        target.req_headers = active.req_headers.iter().map(|line| Box::from(line.as_str())).collect();
        if let Some(healthy) = &active.healthy {
            target.healthy_interval_s = healthy.interval;
            target.thresholds.successes = limit(healthy.successes);
            target.thresholds.healthy_statuses = healthy.http_statuses.iter().copied().collect();
        } else {
            target.healthy_interval_s = 0;
        }
        if let Some(unhealthy) = &active.unhealthy {
            target.unhealthy_interval_s = unhealthy.interval;
            target.thresholds.http_failures = limit(unhealthy.http_failures);
            target.thresholds.tcp_failures = limit(unhealthy.tcp_failures);
            target.thresholds.timeouts = limit(unhealthy.timeouts);
            target.thresholds.unhealthy_statuses = unhealthy.http_statuses.iter().copied().collect();
        } else {
            target.unhealthy_interval_s = 0;
        }
    }
    checks.passive = conf.passive.as_ref().map(|passive| {
        let mut target = health::Thresholds::passive();
        if let Some(healthy) = &passive.healthy {
            target.successes = limit(healthy.successes);
            target.healthy_statuses = healthy.http_statuses.iter().copied().collect();
        }
        if let Some(unhealthy) = &passive.unhealthy {
            target.http_failures = limit(unhealthy.http_failures);
            target.tcp_failures = limit(unhealthy.tcp_failures);
            target.timeouts = limit(unhealthy.timeouts);
            target.unhealthy_statuses = unhealthy.http_statuses.iter().copied().collect();
        }
        target
    });
    checks
}

#[cfg(test)]
mod tests {
    use super::{bracketed, checks, split_port};
    use tidegate_balancing::health;
    use tidegate_model::resources::{Checks, Node};

    #[test]
    fn checks_without_values_are_the_defaults() {
        let conf = serde_json::json!({
            "active": {"healthy": {}, "unhealthy": {}}, "passive": {"healthy": {}, "unhealthy": {}}
        });
        let conf: Checks = serde_json::from_value(conf).expect("every value has a default");
        let expected = health::Checks {
            active: health::Checks::default().active,
            passive: Some(health::Thresholds::passive()),
        };
        assert_eq!(checks(&conf, None), expected);
    }

    #[test]
    fn addresses_of_registries_get_brackets() {
        for (host, expected) in
            [("fd00::1", "[fd00::1]"), ("[::1]", "[::1]"), ("10.0.0.1", "10.0.0.1"), ("a.b", "a.b")]
        {
            let node = Node {
                host: host.to_owned(),
                port: Some(80),
                weight: 1,
                max_conn: None,
                priority: 0,
                metadata: None,
            };
            assert_eq!(bracketed(&node).host, expected);
        }
    }

    #[test]
    fn hosts_may_carry_their_port() {
        for (text, expected) in [
            ("127.0.0.1:1980", ("127.0.0.1", Some(1980))),
            ("test.com", ("test.com", None)),
            ("::1", ("::1", None)),
            ("[::1]:80", ("[::1]", Some(80))),
            ("[::1]", ("[::1]", None)),
            ("host:name", ("host:name", None)),
        ] {
            assert_eq!(split_port(text), expected, "{text}");
        }
    }
}
