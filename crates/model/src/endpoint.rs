//! Where a request goes: the parts of an `http://` or `https://` URL.

/// An http or https URL, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Whether the scheme is https.
    pub tls: bool,
    /// Without the brackets of an IPv6 address.
    pub host: String,
    /// That of the scheme, unless the URL has one.
    pub port: u16,
    /// Path and query, at least `/`.
    pub target: String,
}

impl Endpoint {
    /// The error names the URL, without user name and password.
    pub fn parse(url: &str) -> Result<Endpoint, String> {
        let bad = |reason: &str| format!("bad URL {}: {reason}", crate::url::without_user(url));
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| bad("missing scheme; write http:// or https:// first"))?;
        let tls = match scheme.to_ascii_lowercase().as_str() {
            "http" => false,
            "https" => true,
            _ => return Err(bad("scheme must be http or https")),
        };
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let authority = authority.rsplit_once('@').map_or(authority, |(_, authority)| authority);
        let default_port = if tls { 443 } else { 80 };
        let (host, port) = match authority.strip_prefix('[') {
            Some(rest) => {
                let (host, port) = rest.split_once(']').ok_or_else(|| bad("] missing"))?;
                (host, port.strip_prefix(':'))
            }
            None => match authority.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (authority, None),
            },
        };
        if host.is_empty() {
            return Err(bad("host missing"));
        }
        if host.contains(':') && host.parse::<std::net::Ipv6Addr>().is_err() {
            return Err(bad("the host has a colon, and is not an IPv6 address"));
        }
        if url.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
            return Err(bad("it contains a space or a control character"));
        }
        let port = match port {
            None | Some("") => default_port,
            Some(port) => port.parse().map_err(|_| bad("port must be between 0 and 65535"))?,
        };
        let target = target.split('#').next().unwrap_or_default();
        let target = if target.starts_with('/') { target.to_owned() } else { format!("/{target}") };
        Ok(Endpoint { tls, host: host.to_owned(), port, target })
    }

    /// Of a URL, or of a host, perhaps with a port, that is asked for this path over HTTP.
    pub fn at(address: &str, path: &str) -> Result<Endpoint, String> {
        match address.contains("://") {
            true => Endpoint::parse(address),
            false => Endpoint::parse(&format!("http://{address}{path}")),
        }
    }

    /// Whether it is on this machine, whatever the resolver says.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
    }

    /// The host, with its port unless that is the scheme's own.
    pub fn host_header(&self) -> String {
        let host = if self.host.contains(':') { format!("[{}]", self.host) } else { self.host.clone() };
        if self.port == if self.tls { 443 } else { 80 } { host } else { format!("{host}:{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_urls() {
        let cases = [
            ("http://a", Some((false, "a", 80, "/", "a"))),
            ("https://a.b/c?d#e", Some((true, "a.b", 443, "/c?d", "a.b"))),
            ("http://127.0.0.1:1980?x=1", Some((false, "127.0.0.1", 1980, "/?x=1", "127.0.0.1:1980"))),
            ("http://u:p@[::1]:81/", Some((false, "::1", 81, "/", "[::1]:81"))),
            ("ftp://a", None),
            ("a/b", None),
            ("http://:80/", None),
            ("http://a:66000/", None),
            ("http://a::/", None),
        ];
        for (url, expected) in cases {
            let endpoint = Endpoint::parse(url).ok();
            let got = endpoint
                .as_ref()
                .map(|it| (it.tls, it.host.as_str(), it.port, it.target.as_str(), it.host_header()));
            let expected = expected
                .map(|(tls, host, port, target, header)| (tls, host, port, target, header.to_owned()));
            assert_eq!(got, expected, "{url}");
        }
    }
}
