//! Addresses as users write them: `host`, `host:port`, `[::1]:80`, `10.0.0.0/8`.

use std::net::IpAddr;

/// Splits `host[:port]`. IPv6 only has a port in brackets; a port that is no number counts as none.
pub fn parse_address(address: &str) -> (&str, Option<i64>) {
    let (host, port) = match address.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, port),
        _ => return (address, None),
    };
    if address.starts_with('[') && !host.ends_with(']') {
        return (address, None);
    }
    (host, port.parse().ok())
}

pub(super) fn is_ip_or_cidr(address: &str) -> bool {
    let (address, bits) = match address.split_once('/') {
        Some((address, bits)) => (address, Some(bits)),
        None => (address, None),
    };
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let longest = if address.is_ipv4() { 32 } else { 128 };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= longest))
}

pub(super) fn is_bare_ipv6(host: &str) -> bool {
    host.parse::<std::net::Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    #[test]
    fn addresses_split_into_host_and_port() {
        for (address, host, port) in [
            ("a.b", "a.b", None),
            ("a.b:80", "a.b", Some(80)),
            ("[::1]:80", "[::1]", Some(80)),
            ("[::1]", "[::1]", None),
            ("::1", "::1", None),
            ("127.0.0.1:0", "127.0.0.1", Some(0)),
        ] {
            assert_eq!(super::parse_address(address), (host, port), "{address}");
        }
    }
}
