//! URLs: what to connect to and what to ask for.

use std::net::{SocketAddr, ToSocketAddrs};

use crate::Problem;

/// Scheme, host and port. All URLs of a run share one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Whether the scheme is https.
    pub tls: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    pub(crate) port: u16,
}

impl Origin {
    /// Splits `http://host:port/path?query` into origin and path.
    pub fn parse(url: &str) -> Result<(Origin, String), Problem> {
        let bad = |why: &str| Problem::usage(format!("{url}: {why}"));
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| bad("not a URL; it must begin with http:// or https://"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(bad("only http:// and https:// can be measured")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.contains('@') {
            return Err(bad("names and passwords in URLs are not sent; use -H 'Authorization: ...'"));
        }
        let path = path.split('#').next().unwrap_or_default();
        let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
        if let Some(wrong) = unsendable(&path) {
            return Err(bad(&format!("the path holds {wrong:?}, which must be percent-encoded")));
        }
        let (host, port) = split_port(authority).ok_or_else(|| bad("the port is not a number"))?;
        if host.is_empty() {
            return Err(bad("the host is missing"));
        }
        let port = port.unwrap_or(if tls { 443 } else { 80 });
        Ok((Origin { tls, host: host.to_owned(), port }, path))
    }

    /// As the `Host` field names it: the port only where it is not the scheme's own.
    pub fn host_field(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        let usual = if self.tls { 443 } else { 80 };
        if self.port == usual { host } else { format!("{host}:{}", self.port) }
    }

    /// Without a path.
    pub fn url(&self) -> String {
        format!("{}://{}", if self.tls { "https" } else { "http" }, self.host_field())
    }

    /// At least one address.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, Problem> {
        let found = (self.host.as_str(), self.port).to_socket_addrs();
        let mut addresses: Vec<SocketAddr> = found
            .map_err(|error| {
                Problem::unreachable(format!(
                    "cannot find the address of {}: {error}; check the name",
                    self.host
                ))
            })?
            .collect();
        // Many servers listen on IPv4 only while localhost names IPv6 first.
        addresses.sort_by_key(SocketAddr::is_ipv6);
        Ok(addresses)
    }
}

fn unsendable(path: &str) -> Option<char> {
    // Braces stay: templates are written with them.
    let mut inside = 0usize;
    let mut previous = ' ';
    for letter in path.chars() {
        match (previous, letter) {
            ('{', '{') => inside += 1,
            ('}', '}') => inside = inside.saturating_sub(1),
            _ if inside == 0 && (letter.is_control() || letter == ' ' || !letter.is_ascii()) => {
                return Some(letter);
            }
            _ => {}
        }
        previous = letter;
    }
    None
}

fn split_port(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return match after.strip_prefix(':') {
            Some(port) => Some((host, Some(port.parse().ok()?))),
            None => after.is_empty().then_some((host, None)),
        };
    }
    match authority.rsplit_once(':') {
        Some((host, port)) => Some((host, Some(port.parse().ok()?))),
        None => Some((authority, None)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        let check = |url: &str, host_field: &str, path: &str| {
            let (origin, found) = Origin::parse(url).unwrap_or_else(|problem| panic!("{url}: {problem}"));
            assert_eq!((origin.host_field().as_str(), found.as_str()), (host_field, path), "{url}");
        };
        check("http://a.example", "a.example", "/");
        check("HTTP://a.example:80/x?y=1#z", "a.example", "/x?y=1");
        check("https://a.example:8443?q", "a.example:8443", "/?q");
        check("http://[::1]:9080/", "[::1]:9080", "/");
        check("http://h/users/{{rand 1 9}}/x", "h", "/users/{{rand 1 9}}/x");
        for bad in ["a.example/", "ftp://h/", "http:///x", "http://h:port/", "http://u:p@h/", "http://h/a b"]
        {
            assert!(Origin::parse(bad).is_err(), "{bad}");
        }
    }
}
