//! Proxies between this gateway and a service: `http://` is asked of one with the whole URL, `https://` goes through a tunnel.

use std::io;

use tidegate_model::endpoint::Endpoint;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

/// The longest head of a proxy's answer to CONNECT.
const MOST_HEAD_BYTES: usize = 16 << 10;

/// A proxy, and what it is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proxy {
    /// Without TLS.
    pub endpoint: Endpoint,
    /// `Proxy-Authorization`
    pub authorization: Option<String>,
}

/// Which proxy a request goes through, by its scheme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Proxies {
    /// For `http://`.
    pub http: Option<Proxy>,
    /// For `https://`.
    pub https: Option<Proxy>,
    /// Hosts that are asked directly, with those below them; `*` alone: all.
    pub no_proxy: String,
}

impl Proxies {
    /// The proxy for a request, if it goes through one.
    pub fn of(&self, endpoint: &Endpoint) -> Option<&Proxy> {
        let proxy = if endpoint.tls { &self.https } else { &self.http };
        proxy.as_ref().filter(|_| !self.leaves_out(&endpoint.host))
    }

    fn leaves_out(&self, host: &str) -> bool {
        if self.no_proxy == "*" {
            return true;
        }
        let names = self.no_proxy.split(',').map(|name| name.trim().trim_start_matches('.'));
        names.filter(|name| !name.is_empty()).any(|name| {
            let start = host.len().checked_sub(name.len());
            let Some((above, end)) = start.and_then(|at| host.split_at_checked(at)) else { return false };
            end.eq_ignore_ascii_case(name) && (above.is_empty() || above.ends_with('.'))
        })
    }
}

/// Asks the proxy behind the connection for a tunnel. The caller sets the time limit.
pub(super) async fn tunnel(stream: &mut TcpStream, proxy: &Proxy, to: &Endpoint) -> Result<(), String> {
    let host = if to.host.contains(':') { format!("[{}]", to.host) } else { to.host.clone() };
    let place = format!("{host}:{}", to.port);
    let authorization = proxy.authorization.as_ref();
    let authorization = authorization.map(|value| format!("Proxy-Authorization: {value}\r\n"));
    let head =
        format!("CONNECT {place} HTTP/1.1\r\nHost: {place}\r\n{}\r\n", authorization.unwrap_or_default());
    let status = asked(stream, head.as_bytes()).await;
    let status = status.map_err(|error| format!("proxy {}: {error}", proxy.endpoint.host_header()))?;
    match (200..300).contains(&status) {
        true => Ok(()),
        false => Err(format!("proxy {} answered {status} to CONNECT {place}", proxy.endpoint.host_header())),
    }
}

/// The status of an answer without a body. The server behind the tunnel waits for our first bytes.
async fn asked(stream: &mut TcpStream, head: &[u8]) -> io::Result<u16> {
    stream.write_all(head).await?;
    let mut answer = Vec::with_capacity(512);
    while !answer.ends_with(b"\r\n\r\n") {
        if answer.len() >= MOST_HEAD_BYTES {
            return Err(io::Error::other("its answer has too long a head"));
        }
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = answer.strip_prefix(b"HTTP/1.").and_then(|rest| rest.get(2..5));
    let status = status.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    status.ok_or_else(|| io::Error::other("it does not speak HTTP"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_that_are_asked_directly() {
        let proxy =
            |url: &str| Some(Proxy { endpoint: Endpoint::parse(url).expect("a URL"), authorization: None });
        let proxies = |no_proxy: &str| Proxies {
            http: proxy("http://plain:1"),
            https: proxy("http://secure:2"),
            no_proxy: no_proxy.to_owned(),
        };
        for (no_proxy, url, expected) in [
            ("", "http://a.test/", Some("plain")),
            ("", "https://a.test/", Some("secure")),
            ("*", "https://a.test/", None),
            ("b.test,a.test", "http://a.test/", None),
            ("b.test, .a.test", "http://x.A.test/", None),
            ("a.test", "http://nota.test/", Some("plain")),
            ("a.test,*", "http://b.test/", Some("plain")),
        ] {
            let proxies = proxies(no_proxy);
            let found = proxies.of(&Endpoint::parse(url).expect("a URL"));
            assert_eq!(found.map(|proxy| proxy.endpoint.host.as_str()), expected, "{no_proxy} {url}");
        }
    }
}
