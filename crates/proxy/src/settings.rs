//! The settings of config.yaml for the request path, in its own units.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
};

use tidegate_plugin_api::Request;

pub use tidegate_protocol::RequestLimits;

use crate::{Internal, admission::Admission, handshake_room::Room, pace::LeastRate};

/// One address of the data plane.
#[derive(Clone, Debug)]
pub struct Listen {
    /// Where to listen.
    pub address: SocketAddr,
    /// Terminate TLS here.
    pub tls: bool,
    /// Connections begin with a PROXY protocol header.
    pub proxy_protocol: bool,
    /// Skipped, with a log line, when another process listens there.
    pub optional: bool,
}

/// Where the client's address comes from when a trusted peer connects.
#[derive(Clone, Debug)]
pub struct RealIp {
    /// In lower case. `x-forwarded-for` may hold several addresses; `proxy_protocol` is not a header.
    pub header: String,
    /// Peers whose field is trusted.
    pub trusted: Arc<tidegate_routing::AddressSet>,
    /// Skip trusted addresses from the right instead of taking the last one.
    pub recursive: bool,
}

/// Limits for clients of HTTP/2 (`apisix.http2`).
#[derive(Clone, Debug)]
pub struct Http2 {
    /// Of one connection.
    pub max_concurrent_streams: u32,
    /// Bytes of a request body that may be under way, per stream and together.
    pub stream_window_bytes: u32,
    /// Of all bodies of a connection together.
    pub connection_window_bytes: u32,
    /// Streams that a client may cancel within ten seconds, and streams in error that it may cause at once.
    pub max_resets: u32,
    /// PING, SETTINGS and PRIORITY frames within ten seconds.
    pub max_control_frames: u32,
}

impl Default for Http2 {
    fn default() -> Http2 {
        Http2 {
            max_concurrent_streams: 128,
            stream_window_bytes: 256 * 1024,
            connection_window_bytes: 1024 * 1024,
            max_resets: 200,
            max_control_frames: 1000,
        }
    }
}

/// How a request is interpreted, for requests and for explain alike: what of it is read, and which peers are
/// believed.
#[derive(Clone)]
pub struct Reading {
    /// Of heads.
    pub limits: RequestLimits,
    /// Peers whose `X-Forwarded-*` are believed.
    pub trusted_addresses: Option<Arc<tidegate_routing::AddressSet>>,
    /// Peers that may identify the client (`X-Consumer-*` and the like): other gateways.
    pub trusted_gateways: Option<Arc<tidegate_routing::AddressSet>>,
    /// Claims of believed peers pass in any form: a file of nginx compares what came.
    pub claims_as_written: bool,
    /// The header that names the client, and the peers it is believed from (`nginx_config.http.real_ip_*`).
    pub real_ip: Option<RealIp>,
    /// Bodies that routes look into are read up to this size (`apisix.max_post_args_readable_size`).
    pub matched_body_bytes: usize,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading {
            limits: RequestLimits::default(),
            trusted_addresses: None,
            trusted_gateways: None,
            claims_as_written: false,
            real_ip: None,
            matched_body_bytes: 64 * 1024 * 1024,
        }
    }
}

/// Settings of the data plane.
#[derive(Clone)]
pub struct Settings {
    /// For HTTP and HTTPS.
    pub listen: Vec<Listen>,
    /// At least 1.
    pub workers: usize,
    /// Pin worker N to CPU N (`nginx_config.enable_cpu_affinity`).
    pub cpu_affinity: bool,
    /// Connections per worker; above that new ones are closed at once.
    pub worker_connections: usize,
    /// Limits over all workers; `None` without any.
    pub admission: Option<Arc<Admission>>,
    /// For TLS handshakes that are not finished.
    pub handshakes: Arc<Room>,
    /// How fast clients have to send bodies and to take answers.
    pub body_rate: LeastRate,
    /// How fast clients must read responses.
    pub answer_rate: LeastRate,
    /// How fast clients have to send bodies that are held in memory (`apisix.body_memory.min_rate`).
    pub held_body_rate: LeastRate,
    /// Between two requests of a connection.
    pub keepalive_timeout_ms: u64,
    /// For a head.
    pub client_header_timeout_ms: u64,
    /// Time limit of a TLS handshake.
    pub handshake_timeout_ms: u64,
    /// `apisix.max_own_hops`
    pub max_own_hops: u32,
    /// Between two pieces of a body.
    pub client_body_timeout_ms: u64,
    /// Between two writes that make progress.
    pub send_timeout_ms: u64,
    /// How long a draining worker waits for its connections (`worker_shutdown_timeout`).
    pub shutdown_timeout_ms: u64,
    /// 0: unlimited.
    pub client_max_body_size: u64,
    /// How requests are read.
    pub reading: Reading,
    /// Of upstreams.
    pub max_response_head_bytes: usize,
    /// `Server` of every answer.
    pub server_token: String,
    /// `basic.enable` of conf/debug.yaml: answers list the plugins that ran.
    pub debug: Arc<AtomicBool>,
    /// `X-APISIX-Upstream-Status` on every answer, not on failures alone.
    pub show_upstream_status: bool,
    /// The Admin and Control API when they share a data port.
    pub internal: Option<Arc<dyn Internal>>,
    /// `None`: requests are not logged.
    pub access_log: Option<Arc<dyn AccessLog>>,
    /// Returns unused memory of the calling thread to the system; called when a worker falls idle.
    pub release_memory: Option<fn()>,
    /// The name to find a certificate by for clients that send none.
    pub fallback_sni: Option<String>,
    /// `None`: HTTP/1 only (`apisix.enable_http2: false`).
    pub http2: Option<Http2>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: Vec::new(),
            workers: 1,
            cpu_affinity: false,
            worker_connections: 10_620,
            admission: None,
            handshakes: Room::new(usize::MAX, usize::MAX),
            body_rate: LeastRate::default(),
            answer_rate: LeastRate::default(),
            held_body_rate: LeastRate::default(),
            keepalive_timeout_ms: 60_000,
            client_header_timeout_ms: 60_000,
            handshake_timeout_ms: 10_000,
            max_own_hops: 10,
            client_body_timeout_ms: 60_000,
            send_timeout_ms: 10_000,
            shutdown_timeout_ms: 240_000,
            client_max_body_size: 0,
            reading: Reading::default(),
            max_response_head_bytes: 64 * 1024,
            server_token: "APISIX/3.18.0".to_owned(),
            debug: Arc::default(),
            show_upstream_status: false,
            internal: None,
            access_log: None,
            release_memory: None,
            fallback_sni: None,
            http2: Some(Http2::default()),
        }
    }
}

/// Where access log lines go. Called on the worker: must only append to memory.
pub trait AccessLog: Send + Sync {
    /// Logs a finished request; called on its worker, and must not block.
    fn write(&self, worker: usize, request: &Request);
    /// About once per second, so that a quiet worker's lines do not wait.
    fn tick(&self, worker: usize);
}
