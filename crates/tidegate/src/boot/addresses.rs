//! Addresses of config.yaml: where to listen, and whom to believe.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use anyhow::Context;
use tidegate_config::{Listener, Settings};
use tidegate_proxy::settings::{Reading, RealIp, RequestLimits};

pub(super) fn address(listener: &Listener) -> anyhow::Result<SocketAddr> {
    let ip: IpAddr = listener
        .ip
        .parse()
        .with_context(|| format!("invalid listen address {}: not an IP address", listener.ip))?;
    Ok(SocketAddr::new(ip, listener.port))
}

/// How requests are understood, on workers and by explain.
pub(super) fn reading(settings: &Settings) -> anyhow::Result<Reading> {
    let addresses = |key: &str, list: &Option<Vec<String>>| {
        let set =
            list.as_ref().map(|list| tidegate_routing::AddressSet::parse(list.iter().map(String::as_str)));
        let set = set.transpose().map_err(|reason| anyhow::anyhow!("{key}: {reason}"))?;
        anyhow::Ok(set.map(Arc::new))
    };
    let underscores = settings.nginx.underscores_in_headers;
    Ok(Reading {
        limits: RequestLimits { underscores, ..RequestLimits::default() },
        trusted_addresses: addresses("apisix.trusted_addresses", &settings.apisix.trusted_addresses)?,
        trusted_gateways: addresses("apisix.trusted_gateways", &settings.apisix.trusted_gateways)?,
        claims_as_written: settings.apisix.claims_as_written,
        real_ip: real_ip(settings)?,
        matched_body_bytes: match settings.apisix.max_post_args_readable_bytes {
            0 => usize::MAX,
            limit => usize::try_from(limit).unwrap_or(usize::MAX),
        },
    })
}

/// `unix:` in the list is for sockets, which are not data plane addresses here.
fn real_ip(settings: &Settings) -> anyhow::Result<Option<RealIp>> {
    let nginx = &settings.nginx;
    let peers = nginx.real_ip_from.iter().map(String::as_str).filter(|peer| !peer.starts_with("unix:"));
    let peers: Vec<&str> = peers.collect();
    if peers.is_empty() {
        return Ok(None);
    }
    let trusted = tidegate_routing::AddressSet::parse(peers)
        .map_err(|reason| anyhow::anyhow!("nginx_config.http.real_ip_from: {reason}"))?;
    Ok(Some(RealIp {
        header: nginx.real_ip_header.to_ascii_lowercase(),
        trusted: Arc::new(trusted),
        recursive: nginx.real_ip_recursive,
    }))
}
