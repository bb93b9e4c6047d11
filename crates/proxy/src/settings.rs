//! What the request path needs of config.yaml, in its own units.

use std::{net::SocketAddr, sync::Arc};

use wire::RequestLimits;

use crate::Internal;

/// One address of the data plane.
#[derive(Clone, Debug)]
pub struct Listen {
    pub address: SocketAddr,
    /// Terminate TLS here.
    pub tls: bool,
}

#[derive(Clone)]
pub struct Settings {
    pub listen: Vec<Listen>,
    pub workers: usize,
    /// Pin worker N to CPU N (`nginx_config.enable_cpu_affinity`).
    pub cpu_affinity: bool,
    /// Connections per worker; above that new ones are closed at once.
    pub worker_connections: usize,
    pub keepalive_timeout_ms: u64,
    pub client_header_timeout_ms: u64,
    pub client_body_timeout_ms: u64,
    pub send_timeout_ms: u64,
    /// How long a draining worker waits for its connections (`worker_shutdown_timeout`).
    pub shutdown_timeout_ms: u64,
    /// 0: unlimited.
    pub client_max_body_size: u64,
    pub limits: RequestLimits,
    pub max_response_head_bytes: usize,
    /// `Server` of every answer.
    pub server_token: String,
    /// Peers whose `X-Forwarded-*` are believed.
    pub trusted_addresses: Option<Arc<routing::AddressSet>>,
    /// `real_ip_header` of nginx_config with the peers it is believed from.
    pub show_upstream_status: bool,
    /// The Admin and Control API when they share a data port.
    pub internal: Option<Arc<dyn Internal>>,
    pub access_log: Option<Arc<dyn crate::finish::AccessLog>>,
    /// The name to find a certificate by for clients that send none.
    pub fallback_sni: Option<String>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: Vec::new(),
            workers: 1,
            cpu_affinity: false,
            worker_connections: 10_620,
            keepalive_timeout_ms: 60_000,
            client_header_timeout_ms: 60_000,
            client_body_timeout_ms: 60_000,
            send_timeout_ms: 10_000,
            shutdown_timeout_ms: 240_000,
            client_max_body_size: 0,
            limits: RequestLimits::default(),
            max_response_head_bytes: 64 * 1024,
            server_token: "APISIX/3.18.0".to_owned(),
            trusted_addresses: None,
            show_upstream_status: false,
            internal: None,
            access_log: None,
            fallback_sni: None,
        }
    }
}
