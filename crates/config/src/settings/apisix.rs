//! `apisix`.

use std::time::Duration;

use serde_json::Value;

use super::{Reader, http2::Http2, listener::Listener};
use crate::keys::forms;

/// Section `apisix`.
#[derive(Clone, Debug)]
pub struct Apisix {
    /// Ports for HTTP without TLS.
    pub node_listen: Vec<Listener>,
    /// `ssl`.
    pub tls: Tls,
    /// `proxy_protocol`.
    pub proxy_protocol: ProxyProtocol,
    /// `enable_admin`.
    pub enable_admin: bool,
    /// Where the Control API listens; `None`: not served.
    pub control: Option<Listener>,
    /// What it answers to beside addresses and localhost.
    pub control_hosts: Vec<String>,
    /// `control.profiling`: profiles and heap statistics for clients on this machine.
    pub profiling: bool,
    /// Where /status listens; `None`: not served.
    pub status: Option<Listener>,
    /// `enable_dev_mode`: a single worker.
    pub enable_dev_mode: bool,
    /// `enable_ipv6`.
    pub enable_ipv6: bool,
    /// `enable_http2`, for all ports.
    pub enable_http2: bool,
    /// `http2`.
    pub http2: Http2,
    /// `enable_server_tokens`: the version in the field `Server`.
    pub enable_server_tokens: bool,
    /// Sends `X-APISIX-Upstream-Status` with every response, not only those of 5xx.
    pub show_upstream_status_in_response_header: bool,
    /// `delete_uri_tail_slash`.
    pub delete_uri_tail_slash: bool,
    /// `normalize_uri_like_servlet`.
    pub normalize_uri_like_servlet: bool,
    /// `match_uri_encoded_slash`: routes see `%2F` as it was sent.
    pub match_uri_encoded_slash: bool,
    /// 0: no limit.
    pub max_post_args_readable_bytes: u64,
    /// `body_memory`.
    pub body_memory: BodyMemory,
    /// `log_memory`.
    pub log_memory_bytes: u64,
    /// Unset: a part of what there is.
    pub plugin_answer_memory_bytes: Option<u64>,
    /// `extra_lua_path`: where plugins in files are looked for.
    pub extra_lua_path: String,
    /// How often a request may come back to this gateway.
    pub max_own_hops: u32,
    /// `router.http`.
    pub router: HttpRouter,
    /// How long plugin proxy-cache keeps responses that do not say so themselves.
    pub cache_ttl: Duration,
    /// `proxy_cache.zones`.
    pub cache_zones: Vec<CacheZone>,
    /// Name servers; empty: those of /etc/resolv.conf.
    pub dns_resolver: Vec<String>,
    /// How long a name is kept, overriding its TTL.
    pub dns_resolver_valid: Option<Duration>,
    /// How long a name server may take.
    pub resolver_timeout: Duration,
    /// Whether the search domains of /etc/resolv.conf are tried.
    pub enable_resolv_search_opt: bool,
    /// Switches all health checks off.
    pub disable_upstream_healthcheck: bool,
    /// `None`: not configured, which differs from an empty list.
    pub trusted_addresses: Option<Vec<String>>,
    /// Peers whose identity headers are passed on; `None`: none.
    pub trusted_gateways: Option<Vec<String>>,
    /// Set where a file of nginx is served.
    pub claims_as_written: bool,
    /// `data_encryption`.
    pub data_encryption: DataEncryption,
    /// `lru.secret`.
    pub secret_cache: SecretCache,
    /// `client_limits`.
    pub client_limits: ClientLimits,
}

/// 0 means no limit in each field.
#[derive(Clone, Debug, Default)]
pub struct ClientLimits {
    pub connections: usize,
    pub connections_per_address: u32,
    /// Bytes a second.
    pub min_body_rate: u64,
    pub min_answer_rate: u64,
    /// Of TLS.
    /// Unset: by the memory.
    pub handshakes: Option<usize>,
    /// Unset: a part of them.
    pub handshakes_per_address: Option<usize>,
    pub udp_sessions: usize,
    /// Unset: a part of them.
    pub udp_sessions_per_address: Option<usize>,
    pub sessions_per_stream_route: usize,
    pub handshake_timeout: Duration,
    pub rate_window: Duration,
}

/// How routes are looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HttpRouter {
    /// By host, then by path.
    HostUri,
    /// By path.
    Uri,
    /// By path with `:parameters`.
    UriWithParameter,
}

/// Whether a certificate may be for this name: that of a handshake, or `*.` and the rest of one.
pub fn is_server_name(name: &str) -> bool {
    let name = name.strip_prefix("*.").unwrap_or(name);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._".contains(&byte))
}

/// Section `apisix.ssl`.
#[derive(Clone, Debug)]
pub struct Tls {
    /// Whether HTTPS is served.
    pub enable: bool,
    /// Ports for HTTPS.
    pub listen: Vec<Listener>,
    /// Whether config.yaml names `listen`. A default port that is taken is left out.
    pub listen_is_set: bool,
    /// A file; `None`: the system's CAs.
    pub trusted_certificate: Option<String>,
    /// `TLSv1.2`, `TLSv1.3`.
    pub protocols: Vec<String>,
    /// OpenSSL names.
    pub ciphers: Vec<String>,
    /// Whether clients get session tickets.
    pub session_tickets: bool,
    /// The name assumed for clients that send none.
    pub fallback_sni: Option<String>,
}

/// Ports where connections begin with a PROXY protocol header.
#[derive(Clone, Debug, Default)]
pub struct ProxyProtocol {
    /// For HTTP.
    pub http_port: Option<u16>,
    /// For HTTPS.
    pub https_port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheZone {
    pub name: String,
    pub(crate) memory_bytes: u64,
    /// `None`: in memory only.
    pub disk_path: Option<String>,
    pub(crate) disk_bytes: u64,
    pub cache_levels: String,
}

#[derive(Clone, Debug)]
pub struct DataEncryption {
    /// Secret fields of plugins too, not only private keys.
    pub enable_encrypt_fields: bool,
    /// The first encrypts, all decrypt. Empty: nothing is encrypted.
    pub keyring: Vec<String>,
}

#[derive(Clone, Debug)]
pub struct SecretCache {
    pub ttl: Duration,
    pub negative_ttl: Duration,
}

/// `apisix.body_memory`
#[derive(Clone, Debug)]
pub struct BodyMemory {
    /// `None`: a part of what the machine has.
    pub total_bytes: Option<u64>,
    /// Bytes a second; 0: no limit.
    pub min_rate: u64,
    pub rate_window: Duration,
    /// Of one body.
    pub parsed_bytes: u64,
}

impl BodyMemory {
    fn read(reader: &Reader) -> Self {
        BodyMemory {
            total_bytes: reader.size("apisix.body_memory.total"),
            min_rate: reader.size("apisix.body_memory.min_rate").unwrap_or(1024),
            rate_window: reader.duration("apisix.body_memory.rate_window").unwrap_or(Duration::from_secs(10)),
            parsed_bytes: reader.size("apisix.body_memory.parsed").unwrap_or(16 << 20),
        }
    }
}

impl Apisix {
    /// Section `apisix`.
    pub fn read(reader: &Reader) -> Self {
        let on = |name: &str| reader.bool(&format!("apisix.{name}"));
        let proxy_protocol = ProxyProtocol {
            http_port: reader.port("apisix.proxy_protocol.listen_http_port"),
            https_port: reader.port("apisix.proxy_protocol.listen_https_port"),
        };
        let control =
            reader.listener("apisix.control", "127.0.0.1", Some(9090)).filter(|_| on("enable_control"));
        let megabytes = reader.unsigned("apisix.max_post_args_readable_size").unwrap_or(64);
        Self {
            node_listen: listeners(reader.list("apisix.node_listen"), 9080, on("enable_ipv6")),
            tls: Tls::read(reader),
            enable_admin: on("enable_admin"),
            control,
            control_hosts: reader.texts("apisix.control.hosts"),
            profiling: reader.bool("apisix.control.profiling"),
            status: reader
                .value("apisix.status")
                .and_then(|_| reader.listener("apisix.status", "127.0.0.1", Some(7085))),
            enable_dev_mode: on("enable_dev_mode"),
            enable_ipv6: on("enable_ipv6"),
            enable_http2: on("enable_http2"),
            http2: Http2::read(reader),
            enable_server_tokens: on("enable_server_tokens"),
            show_upstream_status_in_response_header: on("show_upstream_status_in_response_header"),
            delete_uri_tail_slash: on("delete_uri_tail_slash"),
            normalize_uri_like_servlet: on("normalize_uri_like_servlet"),
            match_uri_encoded_slash: on("match_uri_encoded_slash"),
            max_post_args_readable_bytes: megabytes.saturating_mul(1 << 20),
            body_memory: BodyMemory::read(reader),
            extra_lua_path: reader.text("apisix.extra_lua_path").unwrap_or_default(),
            max_own_hops: reader
                .unsigned("apisix.max_own_hops")
                .and_then(|hops| hops.try_into().ok())
                .unwrap_or(10),
            plugin_answer_memory_bytes: reader.size("apisix.plugin_answer_memory"),
            log_memory_bytes: reader.size("apisix.log_memory").unwrap_or(64 << 20),
            router: match reader.text("apisix.router.http").as_deref() {
                Some("radixtree_uri") => HttpRouter::Uri,
                Some("radixtree_uri_with_parameter") => HttpRouter::UriWithParameter,
                _ => HttpRouter::HostUri,
            },
            proxy_protocol,
            cache_ttl: reader.duration("apisix.proxy_cache.cache_ttl").unwrap_or(Duration::from_secs(10)),
            cache_zones: reader.list("apisix.proxy_cache.zones").iter().filter_map(CacheZone::read).collect(),
            dns_resolver: reader.texts("apisix.dns_resolver"),
            dns_resolver_valid: reader.seconds("apisix.dns_resolver_valid"),
            resolver_timeout: reader.seconds("apisix.resolver_timeout").unwrap_or(Duration::from_secs(5)),
            enable_resolv_search_opt: on("enable_resolv_search_opt"),
            disable_upstream_healthcheck: on("disable_upstream_healthcheck"),
            trusted_addresses: reader
                .value("apisix.trusted_addresses")
                .map(|_| reader.texts("apisix.trusted_addresses")),
            trusted_gateways: reader
                .value("apisix.trusted_gateways")
                .map(|_| reader.texts("apisix.trusted_gateways")),
            claims_as_written: false,
            data_encryption: DataEncryption {
                enable_encrypt_fields: on("data_encryption.enable_encrypt_fields"),
                keyring: reader.texts("apisix.data_encryption.keyring"),
            },
            secret_cache: SecretCache::read(reader),
            client_limits: ClientLimits::read(reader),
        }
    }
}

impl Tls {
    fn read(reader: &Reader) -> Self {
        let items = reader.list("apisix.ssl.listen");
        let ipv6 = reader.bool("apisix.enable_ipv6");
        let ciphers = reader.text("apisix.ssl.ssl_ciphers").unwrap_or_default();
        let ciphers = ciphers.split([':', ' ', ',']).filter(|word| !word.is_empty());
        // null: as without the key.
        let versions = reader.text("apisix.ssl.ssl_protocols").unwrap_or_else(|| forms::SERVED_TLS.join(" "));
        Self {
            enable: reader.bool("apisix.ssl.enable"),
            listen: listeners(items, 9443, ipv6),
            // Defaults are merged by now: `load` knows.
            listen_is_set: false,
            trusted_certificate: reader
                .text("apisix.ssl.ssl_trusted_certificate")
                .filter(|file| file != "system"),
            protocols: forms::tls_versions(&versions).map(str::to_owned).collect(),
            ciphers: ciphers.map(str::to_owned).collect(),
            session_tickets: reader.bool("apisix.ssl.ssl_session_tickets"),
            fallback_sni: reader.text("apisix.ssl.fallback_sni"),
        }
    }
}

impl ClientLimits {
    fn read(reader: &Reader) -> Self {
        let key = |name: &str| format!("apisix.client_limits.{name}");
        let count = |name: &str| reader.unsigned(&key(name)).unwrap_or(0);
        let limit = |name: &str| {
            Some(count(name))
                .filter(|count| *count > 0)
                .map(|count| usize::try_from(count).unwrap_or(usize::MAX))
        };
        let rate = |name: &str| reader.size(&key(name)).unwrap_or(0);
        Self {
            connections: count("connections").try_into().unwrap_or(usize::MAX),
            connections_per_address: count("connections_per_address").try_into().unwrap_or(u32::MAX),
            min_body_rate: rate("min_body_rate"),
            min_answer_rate: rate("min_answer_rate"),
            handshakes: limit("handshakes"),
            handshakes_per_address: limit("handshakes_per_address"),
            udp_sessions: limit("udp_sessions").unwrap_or(16_384),
            udp_sessions_per_address: limit("udp_sessions_per_address"),
            sessions_per_stream_route: limit("sessions_per_stream_route").unwrap_or(0),
            handshake_timeout: reader.duration(&key("handshake_timeout")).unwrap_or(Duration::from_secs(10)),
            rate_window: reader.duration(&key("rate_window")).unwrap_or(Duration::from_secs(10)),
        }
    }
}

impl CacheZone {
    fn read(item: &Value) -> Option<Self> {
        let reader = Reader::new(item);
        Some(Self {
            name: reader.text("name")?,
            memory_bytes: reader.size("memory_size").unwrap_or(50 << 20),
            disk_path: reader.text("disk_path"),
            disk_bytes: reader.size("disk_size").unwrap_or(1 << 30),
            cache_levels: reader.text("cache_levels").unwrap_or_else(|| "1:2".to_owned()),
        })
    }
}

impl SecretCache {
    fn read(reader: &Reader) -> Self {
        let number = |name: &str| reader.unsigned(&format!("apisix.lru.secret.{name}"));
        Self {
            ttl: Duration::from_secs(number("ttl").unwrap_or(300)),
            negative_ttl: Duration::from_secs(number("neg_ttl").unwrap_or(60)),
        }
    }
}

/// Ports, or `{ip, port}`. What names no address listens on all of IPv4, and of IPv6 if that is on. The same address
/// twice is once, as in APISIX.
fn listeners<'v>(items: impl IntoIterator<Item = &'v Value>, port: u16, ipv6: bool) -> Vec<Listener> {
    let mut listeners: Vec<Listener> = Vec::new();
    let mut add = |listener: Listener| {
        if !listeners.iter().any(|known| known.ip == listener.ip && known.port == listener.port) {
            listeners.push(listener);
        }
    };
    for item in items {
        let reader = Reader::new(item);
        let number = if item.is_object() { reader.port("port").or(Some(port)) } else { port_of(item) };
        let Some(number) = number else { continue };
        match reader.text("ip") {
            Some(ip) => add(Listener::new(ip.trim_start_matches('[').trim_end_matches(']'), number)),
            None => {
                add(Listener::new("0.0.0.0", number));
                if ipv6 {
                    add(Listener { implied: true, ..Listener::new("::", number) });
                }
            }
        }
    }
    listeners
}

fn port_of(item: &Value) -> Option<u16> {
    item.as_u64()?.try_into().ok()
}
