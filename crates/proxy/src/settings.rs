//! The settings of config.yaml for the request path, in its own units.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicBool},
};

use tidegate_plugin_api::{Request, Session, messages::OpenMessages};

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
    /// For sessions of stream routes; `None`: for HTTP.
    pub stream: Option<StreamListen>,
}

impl Listen {
    /// The address that the client of a connection chose. A listener for all addresses does not say; any other does, without
    /// asking the kernel.
    pub(crate) fn local_address(&self, stream: &tokio::net::TcpStream) -> SocketAddr {
        match self.address.ip().is_unspecified() {
            true => stream.local_addr().unwrap_or(self.address),
            false => self.address,
        }
    }

    /// Whether it takes datagrams, not connections.
    pub fn is_udp(&self) -> bool {
        self.stream.is_some_and(|stream| stream.udp)
    }
}

/// What an address for sessions of stream routes does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamListen {
    /// Takes datagrams.
    pub udp: bool,
    /// Connections to nodes begin with a PROXY header (`proxy_protocol_to_upstream`).
    pub announce: bool,
}

/// Settings of stream routes.
#[derive(Clone)]
pub struct StreamSettings {
    /// Sessions of datagrams over all workers.
    pub udp_sessions: Option<Arc<Admission>>,
    /// Open sessions of one stream route; 0: no limit.
    pub sessions_per_route: usize,
    /// For what a client sends before its node is known.
    pub preread_timeout_ms: u64,
    /// Without traffic, where the upstream has no `timeout`.
    pub idle_timeout_ms: u64,
    /// Peers whose PROXY headers are believed (`nginx_config.stream.real_ip_from`).
    pub real_ip: Option<Arc<tidegate_routing::AddressSet>>,
    /// `None`: sessions are not logged.
    pub log: Option<Arc<dyn StreamLog>>,
}

impl Default for StreamSettings {
    fn default() -> StreamSettings {
        StreamSettings {
            udp_sessions: None,
            sessions_per_route: 0,
            preread_timeout_ms: 30_000,
            idle_timeout_ms: 600_000,
            real_ip: None,
            log: None,
        }
    }
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
    /// Of stream routes.
    pub stream: StreamSettings,
    /// `None`: upstreams with scheme `kafka` are answered 500.
    pub messages: Option<OpenMessages>,
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
            stream: StreamSettings::default(),
            messages: None,
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

/// As [`AccessLog`], of sessions.
pub trait StreamLog: Send + Sync {
    /// Logs a session that has ended; called on its worker, and must not block.
    fn write(&self, worker: usize, session: &Session);
    /// About once per second.
    fn tick(&self, worker: usize);
}
