//! How requests are matched, as far as it decides what has no effect.

use std::net::IpAddr;

use crate::url::percent_decoded;

/// How routes are matched, by `apisix.router.http`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Matching {
    /// Hosts are compared with their port where a pattern has one (`radixtree_uri`, `radixtree_uri_with_parameter`).
    pub host_ports: bool,
    /// `:name` matches one path segment (`radixtree_uri_with_parameter`).
    pub parameters: bool,
    /// `%2F` is not decoded (`apisix.match_uri_encoded_slash`).
    pub encoded_slash: bool,
    /// Secrets are used as written: the configuration is a document (`apisix.yaml`, `PUT /configs`), which is never
    /// decrypted.
    pub is_document: bool,
    /// Sessions of TCP and UDP are proxied (`apisix.proxy_mode`).
    pub stream: bool,
    /// Where requests arrive.
    pub ports: Ports,
    /// Where sessions arrive.
    pub stream_ports: Ports,
    /// Those of them where sessions of TCP arrive, whose handshakes can be read.
    pub tcp_ports: Ports,
    /// Those of them where TLS ends.
    pub tls_ports: Ports,
    /// Where sessions arrive, with addresses.
    pub stream_listeners: Listeners,
}

/// The addresses that a gateway listens on. Unknown as [`Ports`] are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Listeners(Option<([(Option<IpAddr>, u16); Listeners::MOST], u8)>);

impl Listeners {
    /// This moves by value.
    const MOST: usize = 4;

    /// `None` for an address: all of the machine.
    pub fn of(listeners: impl IntoIterator<Item = (Option<IpAddr>, u16)>) -> Listeners {
        let (mut list, mut count) = ([(None, 0); Listeners::MOST], 0u8);
        for listener in listeners {
            let Some(next) = list.get_mut(usize::from(count)) else { return Listeners(None) };
            *next = listener;
            count += 1;
        }
        Listeners(Some((list, count)))
    }

    /// The addresses with this port, or any, where each is named; `None`: sessions may come to others, or none is known.
    pub(super) fn addresses(&self, port: Option<u64>) -> Option<Vec<IpAddr>> {
        let (list, count) = self.0.as_ref()?;
        let list = list.get(..usize::from(*count))?;
        let own = list.iter().filter(|(_, own)| port.is_none_or(|port| u64::from(*own) == port));
        let addresses: Option<Vec<IpAddr>> = own.map(|(address, _)| *address).collect();
        addresses.filter(|addresses| !addresses.is_empty())
    }
}

/// The ports that a gateway listens on. They are unknown where the system chooses one, where other gateways serve the objects,
/// and where there are more than a message could name.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ports(Option<([u16; Ports::MOST], u8)>);

impl Ports {
    const MOST: usize = 16;

    /// Of listeners.
    pub fn of(ports: impl IntoIterator<Item = u16>) -> Ports {
        let (mut list, mut count) = ([0; Ports::MOST], 0u8);
        for port in ports {
            let known = list.get(..usize::from(count)).unwrap_or_default();
            if known.contains(&port) {
                continue;
            }
            let Some(next) = list.get_mut(usize::from(count)).filter(|_| port != 0) else {
                return Ports(None);
            };
            *next = port;
            count += 1;
        }
        Ports(Some((list, count)))
    }

    /// Whether it is known that this is one of them.
    pub(super) fn has(&self, port: u64) -> bool {
        self.0.is_some() && self.instead_of(port).is_none()
    }

    pub(super) fn is_unknown(&self) -> bool {
        self.0.is_none()
    }

    /// Whether it is known that there are none.
    pub(super) fn is_none(&self) -> bool {
        self.0.as_ref().is_some_and(|(_, count)| *count == 0)
    }

    /// Where the gateway listens instead of on this port; `None`: it listens there, or this is unknown.
    pub(super) fn instead_of(&self, port: u64) -> Option<String> {
        let (list, count) = self.0.as_ref()?;
        let ports = list.get(..usize::from(*count))?;
        if ports.iter().any(|own| u64::from(*own) == port) {
            return None;
        }
        let shown: Vec<String> = ports.iter().map(u16::to_string).collect();
        Some(match shown.as_slice() {
            [] => "no port".to_owned(),
            [only] => format!("port {only} only"),
            [others @ .., last] => format!("ports {} and {last} only", others.join(", ")),
        })
    }
}

/// The path as requests have it when they are compared. With `match_uri_encoded_slash` `%2F` stays.
pub(super) fn compared(path: &str, matching: Matching) -> String {
    let path = decoded(path.trim(), matching.encoded_slash);
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/').skip(1) {
        match segment {
            "" | "." => {}
            ".." => drop(segments.pop()),
            _ => segments.push(segment),
        }
    }
    let is_folder = ["/", "/.", "/.."].iter().any(|end| path.ends_with(end)) && !segments.is_empty();
    let slash = if is_folder { "/" } else { "" };
    if path == "*" { path } else { format!("/{}{slash}", segments.join("/")) }
}

pub(super) fn decoded(path: &str, encoded_slash: bool) -> String {
    match encoded_slash {
        true => percent_decoded(&path.replace("%2F", "%252F").replace("%2f", "%252F")),
        false => percent_decoded(path),
    }
}
