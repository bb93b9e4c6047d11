//! config.yaml's words for the request path.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use tidegate_config::{Role, Settings};
use tidegate_proxy::{
    admission::Admission,
    handshake_room::Room,
    pace::LeastRate,
    settings::{Http2, Listen, StreamListen, StreamSettings},
};

use super::{
    access_log::FormattedLog,
    addresses::{address, reading},
    administration::Apis,
    debug_file,
    logs::Logs,
    memory::release_memory,
    stream_log::FormattedStreamLog,
};

pub(super) fn server_token(settings: &Settings) -> String {
    if settings.own_name {
        tidegate_proxy::page::use_own_name();
        return concat!("Tidegate/", env!("CARGO_PKG_VERSION")).to_owned();
    }
    if settings.apisix.enable_server_tokens { "APISIX/3.18.0".to_owned() } else { "APISIX".to_owned() }
}

pub(super) fn settings(
    settings: &Settings,
    logs: &Logs,
    apis: &Arc<Apis>,
) -> anyhow::Result<tidegate_proxy::Settings> {
    let nginx = &settings.nginx;
    let ms = |duration: Duration| duration.as_millis() as u64;
    let access_log = match &logs.access {
        None => None,
        Some(sink) => {
            let log = &nginx.access_log;
            let formatted = FormattedLog::new(&log.format, &log.escape, sink.clone(), log.buffer_bytes)
                .context("nginx_config.http.access_log_format")?;
            Some(Arc::new(formatted) as Arc<dyn tidegate_proxy::settings::AccessLog>)
        }
    };
    let limits = &settings.apisix.client_limits;
    let handshakes = limits.handshakes.unwrap_or_else(super::body_memory::handshakes);
    let rate = |bytes_per_second| LeastRate { bytes_per_second, window_ms: ms(limits.rate_window) };
    Ok(tidegate_proxy::Settings {
        listen: listeners(settings)?,
        workers: nginx.workers,
        cpu_affinity: nginx.enable_cpu_affinity,
        worker_connections: nginx.worker_connections,
        admission: Admission::new(limits.connections, limits.connections_per_address),
        handshakes: Room::new(handshakes, limits.handshakes_per_address.unwrap_or(handshakes.div_ceil(4))),
        body_rate: rate(limits.min_body_rate),
        answer_rate: rate(limits.min_answer_rate),
        held_body_rate: LeastRate {
            bytes_per_second: settings.apisix.body_memory.min_rate,
            window_ms: ms(settings.apisix.body_memory.rate_window),
        },
        keepalive_timeout_ms: ms(nginx.timeouts.keepalive),
        handshake_timeout_ms: ms(limits.handshake_timeout),
        max_own_hops: settings.apisix.max_own_hops,
        client_header_timeout_ms: ms(nginx.timeouts.client_header),
        client_body_timeout_ms: ms(nginx.timeouts.client_body),
        send_timeout_ms: ms(nginx.timeouts.send),
        shutdown_timeout_ms: ms(nginx.shutdown_timeout),
        client_max_body_size: nginx.client_max_body_bytes,
        server_token: server_token(settings),
        reading: reading(settings)?,
        debug: debug_file::follow(settings),
        show_upstream_status: settings.apisix.show_upstream_status_in_response_header,
        internal: apis.on_data_plane(settings),
        access_log,
        http2: settings.apisix.enable_http2.then(|| http2(settings)),
        release_memory: Some(release_memory),
        fallback_sni: settings.apisix.tls.fallback_sni.as_ref().map(|name| name.to_ascii_lowercase()),
        stream: stream(settings, logs)?,
        messages: Some(tidegate_plugins::registry::OPEN_MESSAGES),
        ..tidegate_proxy::Settings::default()
    })
}

fn stream(settings: &Settings, logs: &Logs) -> anyhow::Result<StreamSettings> {
    let limits = &settings.apisix.client_limits;
    let of_address = limits.udp_sessions_per_address.unwrap_or(limits.udp_sessions.div_ceil(4));
    let log = logs.stream.clone().map(|sink| FormattedStreamLog::new(&settings.nginx.stream_log, sink));
    let log = log.transpose().context("nginx_config.stream.access_log_format")?;
    let trusted = settings.stream.real_ip_from.iter().map(String::as_str);
    let trusted: Vec<&str> = trusted.filter(|peer| !peer.starts_with("unix:")).collect();
    let real_ip = tidegate_routing::AddressSet::parse(trusted)
        .map_err(|reason| anyhow::anyhow!("nginx_config.stream.real_ip_from: {reason}"))?;
    Ok(StreamSettings {
        udp_sessions: Admission::new(limits.udp_sessions, u32::try_from(of_address).unwrap_or(u32::MAX)),
        sessions_per_route: limits.sessions_per_stream_route,
        real_ip: Some(Arc::new(real_ip)).filter(|set| !set.is_empty()),
        log: log.map(|log| Arc::new(log) as Arc<dyn tidegate_proxy::settings::StreamLog>),
        ..StreamSettings::default()
    })
}

fn http2(settings: &Settings) -> Http2 {
    let limits = settings.apisix.http2;
    Http2 {
        max_concurrent_streams: limits.max_concurrent_streams,
        stream_window_bytes: limits.stream_window_bytes,
        connection_window_bytes: limits.connection_window_bytes,
        max_resets: limits.max_resets,
        max_control_frames: limits.max_control_frames,
    }
}

/// The ports for traffic; role control_plane has none.
fn listeners(settings: &Settings) -> anyhow::Result<Vec<Listen>> {
    let mut listen = Vec::new();
    if settings.role == Role::ControlPlane {
        return Ok(listen);
    }
    for tcp in &settings.stream.tcp {
        let how = StreamListen { udp: false, announce: tcp.announce };
        let (tls, proxy_protocol) = (tcp.tls, tcp.proxy_protocol);
        let address = address(&tcp.listener)?;
        listen.push(Listen { address, tls, proxy_protocol, optional: false, stream: Some(how) });
    }
    for listener in &settings.stream.udp {
        let how = StreamListen { udp: true, announce: false };
        listen.push(Listen { stream: Some(how), ..plain(address(listener)?) });
    }
    if settings.stream.only {
        return Ok(listen);
    }
    for listener in &settings.apisix.node_listen {
        // The IPv6 twin of a bare port is wanted only where there is IPv6.
        if !listener.implied || ipv6_available() {
            listen.push(plain(address(listener)?));
        }
    }
    if settings.apisix.tls.enable {
        for listener in &settings.apisix.tls.listen {
            if !listener.implied || ipv6_available() {
                // Open by default and often unused: a second gateway on the machine does without, and says so.
                let optional = !settings.apisix.tls.listen_is_set;
                listen.push(Listen { tls: true, optional, ..plain(address(listener)?) });
            }
        }
    }
    listen.extend(announced(settings)?);
    Ok(listen)
}

fn plain(address: SocketAddr) -> Listen {
    Listen { address, tls: false, proxy_protocol: false, optional: false, stream: None }
}

/// The ports behind balancers that speak the PROXY protocol.
fn announced(settings: &Settings) -> anyhow::Result<Vec<Listen>> {
    let ports = &settings.apisix.proxy_protocol;
    let https = ports.https_port.filter(|_| settings.apisix.tls.enable);
    let mut listen = Vec::new();
    for (port, tls) in [(ports.http_port, false), (https, true)] {
        let Some(port) = port else { continue };
        let everywhere: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
        for ip in everywhere {
            if ip.is_ipv4() || (settings.apisix.enable_ipv6 && ipv6_available()) {
                let address = SocketAddr::new(ip, port);
                listen.push(Listen { tls, proxy_protocol: true, ..plain(address) });
            }
        }
    }
    Ok(listen)
}

fn ipv6_available() -> bool {
    std::net::TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok()
}
