//! Addresses as users write them: `host`, `host:port`, `[::1]:80`, `10.0.0.0/8`.

use std::net::IpAddr;

use crate::url::without_user;

/// Splits `host[:port]`. IPv6 only has a port in brackets; a port that is not a number counts as none.
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

/// Whether a host looks like a name or an address: what stands before a `#` that was not meant as a fragment may not.
fn is_plain(host: &str) -> bool {
    host.ends_with(|last: char| last.is_ascii_alphanumeric() || last == ']')
}

/// Why no connection can be made to a node with this address.
pub(crate) fn node_fault(address: &str) -> Option<String> {
    let shown = without_user(address);
    let (scheme, rest) = address.split_once("://").unwrap_or(("", address));
    let (host, path) = rest.split_once(['/', '?', '#']).unwrap_or((rest, ""));
    let has_path = host.len() < rest.len();
    let (user, host) = host.rsplit_once('@').unwrap_or(("", host));
    let (name, port) = host.rsplit_once(':').unwrap_or((host, "0"));
    let remedy = match (scheme, has_path) {
        _ if name.is_empty() || host.contains(char::is_whitespace) => "write host:port".to_owned(),
        ("", true) if !is_plain(name) => "write host:port, with a name or an address as host".to_owned(),
        ("", true) => format!("write {host}; a path is set with plugin proxy-rewrite"),
        ("", false) if !name.contains(':') && port.parse::<i64>().is_err() => {
            format!("invalid port {port}")
        }
        ("", false) if !user.is_empty() => {
            format!("write {host}; credentials are set with the headers of plugin proxy-rewrite")
        }
        ("", false) => return None,
        (scheme, _) => {
            let path = if path.is_empty() { "" } else { ", and set the path with plugin proxy-rewrite" };
            format!("write {host} and scheme {scheme}{path}")
        }
    };
    Some(format!("node {shown:?} is not an address: {remedy}"))
}

/// Why no handshake asks for a server name in this form: a certificate with it, and what it requires of clients, is never
/// used.
pub fn server_name_fault(name: &str) -> Option<String> {
    let bare = name.strip_prefix("*.").unwrap_or(name).trim_end_matches('.');
    if name == "*" || is_ip(bare) {
        return None;
    }
    let remedy = match bare.rsplit_once(':') {
        Some((host, _)) => format!("a port is not allowed; write {host}"),
        None if bare.starts_with('[') || bare.ends_with(']') => "brackets are for IPv6 addresses".to_owned(),
        None if bare.contains('*') => match bare.trim_start_matches('*') {
            rest if rest.contains('*') || name.len() > bare.len() => "write * once, before a dot".to_owned(),
            rest => format!("write *.{rest}, and {rest} if that is meant too"),
        },
        None if bare.split('.').any(str::is_empty) => "it cannot have an empty label".to_owned(),
        None => {
            let sign = bare.chars().find(|sign| !is_of_name(*sign))?;
            format!("{sign:?} is not allowed in a name")
        }
    };
    Some(format!("invalid server name {name:?}: {remedy}"))
}

/// Whether a text without spaces may be meant for a server name, although [`server_name_fault`] has something to say of it.
pub fn may_mean_server_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|sign| is_of_name(sign) || "*[]:".contains(sign))
}

fn is_of_name(sign: char) -> bool {
    sign.is_ascii_alphanumeric() || "-_.".contains(sign)
}

fn is_ip(text: &str) -> bool {
    let literal = text.strip_prefix('[').and_then(|text| text.strip_suffix(']'));
    text.parse::<IpAddr>().is_ok() || literal.is_some_and(|text| text.parse::<std::net::Ipv6Addr>().is_ok())
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
    fn nodes_are_addresses() {
        for (address, remedy) in [
            ("http://a.b:80", "write a.b:80 and scheme http"),
            ("https://a.b/x", "write a.b and scheme https, and set the path with"),
            ("a.b:80/x", "write a.b:80; a path"),
            ("a.b:8O", "invalid port 8O"),
            ("a b:80", "write host:port"),
            ("u:p@127.0.0.1:1", "write 127.0.0.1:1; credentials"),
            ("u@a.b", "write a.b; credentials"),
            ("", "write host:port"),
            (":80", "write host:port"),
        ] {
            let fault = super::node_fault(address);
            assert!(fault.as_ref().is_some_and(|fault| fault.contains(remedy)), "{address}: {fault:?}");
        }
        for address in ["a.b", "a.b:80", "[::1]:80", "[::1]", "::1", "a_b:1", "a:-1"] {
            assert_eq!(super::node_fault(address), None, "{address}");
        }
    }

    #[test]
    fn server_names() {
        for (name, remedy) in [
            ("a.b:443", "a port is not allowed; write a.b"),
            ("*.a.b:443", "a port is not allowed; write a.b"),
            ("*a.b", "write *.a.b, and a.b if that is meant too"),
            ("*.*.a", "write * once"),
            (".a.b", "it cannot have an empty label"),
            ("*..a", "it cannot have an empty label"),
            ("[a.b]", "brackets are for IPv6 addresses"),
            ("a..b", "it cannot have an empty label"),
            ("", "it cannot have an empty label"),
        ] {
            let fault = super::server_name_fault(name);
            assert!(fault.as_ref().is_some_and(|fault| fault.contains(remedy)), "{name}: {fault:?}");
        }
        for name in ["a.b", "*.a.b", "*", "a.b.", "a_b", "127.0.0.1", "::1", "[::1]", "localhost"] {
            assert_eq!(super::server_name_fault(name), None, "{name}");
            assert!(super::may_mean_server_name(name), "{name}");
        }
        for (text, may) in [("a.b:443", true), ("*a.b", true), ("[a.b]", true), ("", false), ("a/b", false)] {
            assert_eq!(super::may_mean_server_name(text), may, "{text}");
        }
    }

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
