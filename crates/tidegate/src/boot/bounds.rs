//! Bounds of the listeners of the Admin API and of pages.

use std::net::IpAddr;

use ipnet::IpNet;
use tidegate_admin::listener::Bounds;
use tidegate_config::Settings;

/// What a listener that is not the data plane's bears.
pub(super) fn bounds(settings: &Settings) -> Bounds {
    let limits = &settings.admin.limits;
    Bounds {
        connections: limits.connections,
        connections_per_address: limits.connections_per_address,
        // Without a list no client is listed, although all may connect; nor is a network of all addresses a list.
        listed: allowed(settings).into_iter().flatten().filter(|network| network.prefix_len() > 0).collect(),
        head: limits.header_timeout,
        body: limits.body_timeout,
        idle: limits.keepalive_timeout,
        send: settings.nginx.timeouts.send,
        large_bodies: limits.large_bodies,
    }
}

/// `deployment.admin.allow_admin`.
pub(super) fn allowed(settings: &Settings) -> Option<Vec<IpNet>> {
    // What cannot be read lets no client in: a list that is left with nothing is still a list.
    let network = |text: &String| text.parse().ok().or_else(|| text.parse::<IpAddr>().ok().map(Into::into));
    settings.admin.allow.as_ref().map(|list| list.iter().filter_map(network).map(canonical).collect())
}

/// An IPv4-mapped network is its IPv4 network, as peers are compared: `::ffff:10.0.0.0/104` is `10.0.0.0/8`.
fn canonical(network: IpNet) -> IpNet {
    let IpNet::V6(wide) = network else { return network };
    let mapped = wide.network().to_ipv4_mapped().zip(wide.prefix_len().checked_sub(96));
    mapped.and_then(|(address, length)| IpNet::new(address.into(), length).ok()).unwrap_or(network)
}
