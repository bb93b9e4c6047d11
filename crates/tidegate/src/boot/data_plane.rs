//! config.yaml's words for the request path.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use config::{Listener, Role, Settings};
use proxy::settings::{Listen, RealIp};

use super::{access_log::FormattedLog, administration::Apis, debug_file, logs::Logs};

/// `apisix.ssl.listen`
const DEFAULT_TLS_PORT: u16 = 9443;

pub fn server_token(settings: &Settings) -> String {
    if settings.apisix.enable_server_tokens { "APISIX/3.18.0".to_owned() } else { "APISIX".to_owned() }
}

pub fn address(listener: &Listener) -> anyhow::Result<SocketAddr> {
    let ip: IpAddr =
        listener.ip.parse().with_context(|| format!("{} is no IP address to listen at", listener.ip))?;
    Ok(SocketAddr::new(ip, listener.port))
}

pub fn settings(settings: &Settings, logs: &Logs, apis: &Arc<Apis>) -> anyhow::Result<proxy::Settings> {
    let nginx = &settings.nginx;
    let ms = |duration: Duration| duration.as_millis() as u64;
    let mut listen = Vec::new();
    // Role control_plane has the Admin API only.
    let serves_traffic = settings.role != Role::ControlPlane;
    for listener in settings.apisix.node_listen.iter().filter(|_| serves_traffic) {
        // The IPv6 twin of a bare port is wanted only where there is IPv6.
        if !listener.implied || ipv6_available() {
            listen.push(Listen { address: address(listener)?, tls: false, optional: false });
        }
    }
    if settings.apisix.tls.enable && serves_traffic {
        for listener in &settings.apisix.tls.listen {
            if !listener.implied || ipv6_available() {
                // Open by default and often unused: a second gateway on the machine does without.
                let optional = listener.port == DEFAULT_TLS_PORT;
                listen.push(Listen { address: address(listener)?, tls: true, optional });
            }
        }
    }
    let trusted = settings.apisix.trusted_addresses.as_ref();
    let trusted_addresses = trusted
        .map(|list| routing::AddressSet::parse(list.iter().map(String::as_str)))
        .transpose()
        .map_err(|reason| anyhow::anyhow!("apisix.trusted_addresses: {reason}"))?
        .map(Arc::new);
    let access_log = match &logs.access {
        None => None,
        Some(sink) => {
            let log = &nginx.access_log;
            let formatted = FormattedLog::new(&log.format, &log.escape, sink.clone(), log.buffer_bytes)
                .context("nginx_config.http.access_log_format")?;
            Some(Arc::new(formatted) as Arc<dyn proxy::finish::AccessLog>)
        }
    };
    Ok(proxy::Settings {
        listen,
        workers: nginx.workers,
        cpu_affinity: nginx.enable_cpu_affinity,
        worker_connections: nginx.worker_connections,
        keepalive_timeout_ms: ms(nginx.timeouts.keepalive),
        client_header_timeout_ms: ms(nginx.timeouts.client_header),
        client_body_timeout_ms: ms(nginx.timeouts.client_body),
        send_timeout_ms: ms(nginx.timeouts.send),
        shutdown_timeout_ms: ms(nginx.shutdown_timeout),
        client_max_body_size: nginx.client_max_body_bytes,
        server_token: server_token(settings),
        trusted_addresses,
        real_ip: real_ip(settings)?,
        matched_body_bytes: match settings.apisix.max_post_args_readable_bytes {
            0 => u64::MAX,
            limit => limit,
        },
        debug: debug_file::follow(settings),
        show_upstream_status: settings.apisix.show_upstream_status_in_response_header,
        internal: apis.on_data_plane(settings),
        access_log,
        release_memory: Some(release_memory),
        fallback_sni: settings.apisix.tls.fallback_sni.as_ref().map(|name| name.to_ascii_lowercase()),
        ..proxy::Settings::default()
    })
}

/// `unix:` in the list is for sockets, which are no data plane addresses here.
fn real_ip(settings: &Settings) -> anyhow::Result<Option<RealIp>> {
    let nginx = &settings.nginx;
    let peers = nginx.real_ip_from.iter().map(String::as_str).filter(|peer| !peer.starts_with("unix:"));
    let peers: Vec<&str> = peers.collect();
    if peers.is_empty() {
        return Ok(None);
    }
    let trusted = routing::AddressSet::parse(peers)
        .map_err(|reason| anyhow::anyhow!("nginx_config.http.real_ip_from: {reason}"))?;
    Ok(Some(RealIp {
        header: nginx.real_ip_header.to_ascii_lowercase(),
        trusted: Arc::new(trusted),
        recursive: nginx.real_ip_recursive,
    }))
}

fn ipv6_available() -> bool {
    std::net::TcpListener::bind((std::net::Ipv6Addr::LOCALHOST, 0)).is_ok()
}

fn release_memory() {
    // SAFETY: takes no pointers and may be called at any time by any thread.
    unsafe { libmimalloc_sys::mi_collect(true) }
}
