//! The server behind `tidegate proxy`.

use std::{
    borrow::Cow,
    fmt,
    net::{IpAddr, Ipv4Addr, SocketAddr},
};

/// An origin: scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    pub tls: bool,
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
}

impl Target {
    pub(super) fn scheme(&self) -> &'static str {
        if self.tls { "https" } else { "http" }
    }

    /// Whether who listens there is the server itself.
    pub(super) fn is_at(&self, listen: SocketAddr) -> bool {
        let address = match self.host.as_str() {
            "localhost" => Some(Ipv4Addr::LOCALHOST.into()),
            host => host.parse::<IpAddr>().ok(),
        };
        let is_reached =
            |address: IpAddr| address == listen.ip() || listen.ip().is_unspecified() && address.is_loopback();
        self.port == listen.port() && address.is_some_and(is_reached)
    }
}

impl fmt::Display for Target {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}://{}:{}", self.scheme(), bracketed(&self.host), self.port)
    }
}

/// A host as it stands before a port.
pub(super) fn bracketed(host: &str) -> Cow<'_, str> {
    if host.contains(':') { format!("[{host}]").into() } else { host.into() }
}

pub(super) fn parse(text: &str) -> Result<Target, String> {
    let (tls, rest) = match (text.strip_prefix("http://"), text.strip_prefix("https://")) {
        (Some(rest), _) => (false, rest),
        (_, Some(rest)) => (true, rest),
        _ => {
            return Err(
                "give a URL that begins with http:// or https://, such as http://127.0.0.1:3000".into()
            );
        }
    };
    let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
    if !matches!(path, "" | "/") {
        return Err(format!(
            "a server is wanted, without {path:?}; a route of a configuration may rewrite paths"
        ));
    }
    if authority.contains('@') {
        return Err("a user and a password cannot be sent along; leave them out".into());
    }
    let (host, port) = match authority.strip_prefix('[') {
        Some(rest) => rest.split_once(']').ok_or("an IPv6 address ends with ]")?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match port.strip_prefix(':') {
        Some(port) => {
            port.parse().ok().filter(|port| *port > 0).ok_or("the port is a number from 1 to 65535")?
        }
        None if port.is_empty() => {
            if tls {
                443
            } else {
                80
            }
        }
        None => return Err(format!("{port:?} after the address is not a port")),
    };
    let is_host = match authority.starts_with('[') {
        true => host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()),
        false => {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
            !host.is_empty() && !host.starts_with(['.', '-']) && host.bytes().all(allowed)
        }
    };
    match is_host {
        true => Ok(Target { tls, host: host.to_ascii_lowercase(), port }),
        false => Err(format!("{host:?} is not a host name or an address")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_origins() {
        for (text, expected) in [
            ("http://127.0.0.1:3000", Some("http://127.0.0.1:3000")),
            ("http://Localhost:3000/", Some("http://localhost:3000")),
            ("https://example.com", Some("https://example.com:443")),
            ("http://[::1]:3000", Some("http://[::1]:3000")),
            ("http://app", Some("http://app:80")),
            ("127.0.0.1:3000", None),
            ("ftp://a", None),
            ("http://", None),
            ("http://:80", None),
            ("http://a:0", None),
            ("http://a:b", None),
            ("http://a:80/path", None),
            ("http://a?b", None),
            ("http://u:p@a", None),
            ("http://a b", None),
            ("http://[::1", None),
            ("http://[a]", None),
            ("http://[::1]x", None),
        ] {
            assert_eq!(parse(text).ok().map(|target| target.to_string()).as_deref(), expected, "{text}");
        }
    }
}
