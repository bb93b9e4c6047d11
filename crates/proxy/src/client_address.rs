//! The client's address behind a trusted proxy, as nginx's realip module finds it (`nginx_config.http.real_ip_*`).

use std::net::{IpAddr, SocketAddr};

use tidegate_plugin_api::Request;
use tidegate_protocol::HeaderId;

use crate::settings::RealIp;

/// In place of a header's name, as in nginx: the addresses of the PROXY protocol header.
const PROXY_PROTOCOL: &str = "proxy_protocol";

/// Replaces the request's address with the one that a trusted peer claims. A value that is not an address
/// changes nothing.
pub(crate) fn set(request: &mut Request, settings: &RealIp) {
    if !settings.trusted.contains(request.remote_addr) || request.connection.inner_client().is_some() {
        return;
    }
    let (address, port) = if settings.header == PROXY_PROTOCOL {
        let Some(proxy_header) = request.connection.proxy_header() else { return };
        (proxy_header.client.ip().to_canonical(), Some(proxy_header.client.port()))
    } else if settings.header == "x-forwarded-for" {
        let mut lines: Vec<&[u8]> = request.head.headers.all_known(HeaderId::XForwardedFor).collect();
        lines.reverse();
        let items = lines.into_iter().flat_map(|line| line.rsplit(|&byte| byte == b','));
        let Some(found) = last_client(items, settings) else { return };
        found
    } else {
        let Some(line) = request.head.headers.get(&settings.header) else { return };
        let Some(found) = last_client(line.rsplit(|&byte| byte == b','), settings) else { return };
        found
    };
    request.remote_addr = address;
    if let Some(port) = port {
        request.remote_port = port;
    }
}

/// From the right: the last address, or the last one that is not trusted itself.
fn last_client<'a>(
    items: impl Iterator<Item = &'a [u8]>,
    settings: &RealIp,
) -> Option<(IpAddr, Option<u16>)> {
    let mut found = None;
    for item in items {
        let Some(parsed) = parse(item) else { break };
        found = Some(parsed);
        if !settings.recursive || !settings.trusted.contains(parsed.0) {
            break;
        }
    }
    found
}

/// `1.2.3.4`, `1.2.3.4:5`, `::1`, `[::1]:5`.
fn parse(text: &[u8]) -> Option<(IpAddr, Option<u16>)> {
    let text = std::str::from_utf8(text).ok()?.trim();
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some((address.to_canonical(), None));
    }
    let with_port: SocketAddr = text.parse().ok()?;
    Some((with_port.ip().to_canonical(), Some(with_port.port())))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn addresses_are_read_from_the_right() {
        let check = |line: &str, recursive: bool, expected: Option<&str>| {
            let trusted = tidegate_routing::AddressSet::parse(["10.0.0.0/8"]).expect("a network");
            let settings =
                RealIp { header: "x-forwarded-for".to_owned(), trusted: Arc::new(trusted), recursive };
            let found = last_client(line.as_bytes().rsplit(|&byte| byte == b','), &settings);
            assert_eq!(found.map(|(address, _)| address.to_string()).as_deref(), expected, "{line}");
        };
        check("1.1.1.1", false, Some("1.1.1.1"));
        check("1.1.1.1, 10.0.0.9", false, Some("10.0.0.9"));
        check("1.1.1.1, 2.2.2.2:80, 10.0.0.9", true, Some("2.2.2.2"));
        check("[::1]:5,10.0.0.9", true, Some("::1"));
        check("nobody, 10.0.0.9", true, Some("10.0.0.9"));
        check("unknown", true, None);
    }
}
