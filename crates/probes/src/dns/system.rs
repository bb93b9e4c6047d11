//! Lookups with hickory-resolver: `/etc/hosts`, search domains and, unless others are configured, the name
//! servers of `/etc/resolv.conf`.

use std::{net::SocketAddr, pin::Pin, time::Duration, time::Instant};

use hickory_resolver::{
    TokioResolver,
    config::{
        ConnectionConfig, LookupIpStrategy, NameServerConfig, ResolveHosts, ResolverConfig, ResolverOpts,
    },
    net::{DnsError, NetError, runtime::TokioRuntimeProvider},
    proto::{op::ResponseCode, rr::Name},
    system_conf::read_system_conf,
};

use super::{Lookup, LookupError, ResolvedName};

/// `apisix.dns_resolver` and its neighbours in config.yaml.
#[derive(Clone, Debug)]
pub struct SystemLookupOptions {
    /// `dns_resolver`; empty: those of the system.
    pub servers: Vec<SocketAddr>,
    /// `dns_resolver_valid`: replaces the TTL of answers.
    pub valid_s: Option<u64>,
    /// `resolver_timeout`, for one try.
    pub timeout_ms: u64,
    /// `enable_resolv_search_opt`
    pub search: bool,
    /// `enable_ipv6`: ask for AAAA when there is no A.
    pub ipv6: bool,
}

impl Default for SystemLookupOptions {
    fn default() -> Self {
        Self { servers: Vec::new(), valid_s: None, timeout_ms: 5000, search: true, ipv6: true }
    }
}

/// Asks the name servers of config.yaml or of `resolv.conf`, after the hosts file.
pub struct SystemLookup {
    resolver: TokioResolver,
    valid_s: Option<u64>,
    /// The query and the servers it goes to, for errors.
    asked: String,
}

impl SystemLookup {
    /// Must be called within the runtime that will look up. Fails when there is no name server to ask.
    pub fn new(options: SystemLookupOptions) -> Result<Self, String> {
        // Without a readable resolv.conf configured servers still do.
        let (system, mut settings) = match read_system_conf() {
            Ok(system) => system,
            Err(_) if !options.servers.is_empty() => Default::default(),
            Err(error) => return Err(format!("failed to read /etc/resolv.conf: {error}; set dns_resolver")),
        };
        let (domain, search, mut servers) = system.into_parts();
        if !options.servers.is_empty() {
            servers = options.servers.iter().copied().map(name_server).collect();
        }
        if servers.is_empty() {
            return Err("no name server found in /etc/resolv.conf; set dns_resolver".to_owned());
        }
        let (domain, search) = if options.search { (domain, search) } else { (None, Vec::new()) };
        apply(&options, &mut settings);
        let asked = asked(&servers, options.ipv6);
        let config = ResolverConfig::from_parts(domain, search, servers);
        let resolver = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
            .with_options(settings)
            .build()
            .map_err(|error| format!("failed to set up the resolver: {error}"))?;
        Ok(Self { resolver, valid_s: options.valid_s, asked })
    }
}

/// `A and AAAA records asked of 127.0.0.53:53`
fn asked(servers: &[NameServerConfig], ipv6: bool) -> String {
    let server = |server: &NameServerConfig| {
        let port = server.connections.first().map_or(53, |connection| connection.port);
        SocketAddr::new(server.ip, port).to_string()
    };
    let servers: Vec<String> = servers.iter().map(server).collect();
    let records = if ipv6 { "A and AAAA records" } else { "A records" };
    format!("{records} asked of {}", servers.join(", "))
}

fn reason(error: &NetError) -> String {
    match error {
        NetError::Dns(DnsError::NoRecordsFound(none)) => match none.response_code {
            ResponseCode::NXDomain => "no such name (NXDOMAIN)".to_owned(),
            ResponseCode::NoError => "the name has no such record".to_owned(),
            code => format!("the server answered {code}"),
        },
        NetError::Timeout => "no answer in time".to_owned(),
        other => other.to_string(),
    }
}

/// No such name, or none with an address; not where the server failed or refused.
fn is_gone(error: &NetError) -> bool {
    matches!(error, NetError::Dns(DnsError::NoRecordsFound(none))
        if matches!(none.response_code, ResponseCode::NXDomain | ResponseCode::NoError))
}

fn apply(options: &SystemLookupOptions, settings: &mut ResolverOpts) {
    settings.timeout = Duration::from_millis(options.timeout_ms.max(1));
    settings.use_hosts_file = ResolveHosts::Always;
    // Answers are kept here, with `valid_s` instead of their TTL if it is set.
    settings.cache_size = 0;
    settings.ip_strategy =
        if options.ipv6 { LookupIpStrategy::Ipv4thenIpv6 } else { LookupIpStrategy::Ipv4Only };
}

fn name_server(address: SocketAddr) -> NameServerConfig {
    let connections = [ConnectionConfig::udp(), ConnectionConfig::tcp()];
    let connections = connections.into_iter().map(|mut connection| {
        connection.port = address.port();
        connection
    });
    NameServerConfig::new(address.ip(), true, connections.collect())
}

impl Lookup for SystemLookup {
    fn lookup<'a>(
        &'a self,
        name: &'a str,
    ) -> Pin<Box<dyn Future<Output = Result<ResolvedName, LookupError>> + Send + 'a>> {
        Box::pin(async move {
            // Host names with an underscore are usual in compose files, and every system resolver takes them.
            let asked = Name::from_str_relaxed(name)
                .map_err(|error| LookupError { reason: format!("not a host name: {error}"), gone: true })?;
            let found = self.resolver.lookup_ip(asked).await;
            let found = found.map_err(|error| LookupError {
                reason: format!("{}: {}", self.asked, reason(&error)),
                gone: is_gone(&error),
            })?;
            let ttl = found.valid_until().saturating_duration_since(Instant::now());
            Ok(ResolvedName {
                addresses: found.iter().collect(),
                valid_for: self.valid_s.map_or(ttl, Duration::from_secs),
            })
        })
    }
}
