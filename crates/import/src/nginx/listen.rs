//! `listen` and `server_name`.
//!
//! nginx chooses by the address and port that a connection came to, then by name: the exact one, the longest wildcard in
//! front, the longest behind, the first regular expression, the default server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv6Addr},
};

use super::{
    made::{Made, Stop},
    parse::Directive,
};

/// An address and a port of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Socket {
    /// `None`: all addresses. 0.0.0.0 and :: stand here where different servers listen on them.
    pub address: Option<IpAddr>,
    pub port: u16,
}

impl Socket {
    pub(crate) fn is_public(&self) -> bool {
        !self.address.is_some_and(|address| address.is_loopback())
    }

    pub(super) fn text(&self) -> String {
        match self.address {
            None => format!("*:{}", self.port),
            Some(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            Some(address) => format!("{address}:{}", self.port),
        }
    }
}

/// What a gateway has to listen on to be where the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    /// For HTTP.
    pub plain: BTreeSet<(IpAddr, u16)>,
    /// For HTTPS.
    pub tls: BTreeSet<(IpAddr, u16)>,
}

#[derive(Clone, Debug)]
pub(super) struct Listen {
    pub socket: Socket,
    pub tls: bool,
    pub default: bool,
    /// Why no client is served there.
    pub fault: Option<String>,
}

/// What one server says, and holds for all that listen on the address.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// Sockets with `proxy_protocol`, each with the line that sets it.
    behind_proxies: BTreeMap<Socket, usize>,
    /// Ports of `[::]` that take clients of IPv4 as well.
    both_families: BTreeSet<u16>,
    /// Ports at addresses that only a resolver knows.
    unknown: BTreeMap<u16, String>,
}

const ANY: IpAddr = IpAddr::V6(Ipv6Addr::UNSPECIFIED);

impl Shared {
    pub(super) fn of(servers: &[&Directive]) -> Shared {
        let mut shared = Shared::default();
        for listen in servers.iter().flat_map(|server| server.all("listen")) {
            let has = |word: &str| listen.arguments.iter().any(|argument| argument == word);
            match socket(listen.argument(0)) {
                Some(Read::Known(socket)) => {
                    if has("ipv6only=off") && socket.address == Some(ANY) {
                        shared.both_families.insert(socket.port);
                    }
                    if has("proxy_protocol") {
                        shared.behind_proxies.entry(socket).or_insert(listen.at.line);
                    }
                }
                Some(Read::Named(port)) => _ = shared.unknown.insert(port, listen.title()),
                None => {}
            }
        }
        shared
    }

    /// Whether clients of IPv4 come to the server at an address of IPv6.
    pub(crate) fn maps_addresses(&self, server: &Directive) -> bool {
        server.all("listen").any(|listen| match socket(listen.argument(0)) {
            Some(Read::Known(socket)) => {
                socket.address == Some(ANY) && self.both_families.contains(&socket.port)
            }
            _ => false,
        })
    }

    fn fault(&self, socket: &Socket) -> Option<String> {
        if let Some(line) = self.behind_proxies.get(socket) {
            return Some(format!("`proxy_protocol` of line {line} holds for {}", socket.text()));
        }
        self.unknown.get(&socket.port).map(|title| format!("`{title}` is not an address and port"))
    }
}

/// Why a server cannot be served at all.
pub(super) fn listens(server: &Directive, shared: &Shared) -> Made<Vec<Listen>> {
    let on = server.one("ssl").is_some_and(|ssl| ssl.argument(0) == "on");
    let mut all: Vec<Listen> = Vec::new();
    let mut add = |socket: Socket, tls: bool, default: bool, fault: Option<String>| match all
        .iter_mut()
        .find(|known| known.socket == socket)
    {
        Some(known) => known.default |= default,
        None => all.push(Listen { socket, tls, default, fault }),
    };
    for listen in server.all("listen") {
        let has = |word: &str| listen.arguments.iter().any(|argument| argument == word);
        // The same port is there for TCP as well.
        if has("quic") || listen.argument(0).starts_with("unix:") {
            continue;
        }
        let socket = match socket(listen.argument(0)) {
            Some(Read::Known(socket)) => socket,
            // No client is served at this port.
            Some(Read::Named(port)) => Socket { address: Some(IpAddr::from([0, 0, 0, 0])), port },
            None => return Err(Stop::closed(format!("`{}` is not an address and port", listen.title()))),
        };
        let (tls, default) = (has("ssl") || on, has("default_server") || has("default"));
        let fault = shared.fault(&socket);
        if socket.address == Some(ANY) && shared.both_families.contains(&socket.port) {
            let both = Socket { address: Some(IpAddr::from([0, 0, 0, 0])), port: socket.port };
            add(both, tls, default, fault.clone());
        }
        add(socket, tls, default, fault);
    }
    if server.one("listen").is_none() {
        let socket = Socket { address: Some(IpAddr::from([0, 0, 0, 0])), port: 80 };
        let fault = shared.fault(&socket);
        add(socket, on, false, fault);
    }
    Ok(all)
}

/// What a `listen` names.
enum Read {
    Known(Socket),
    /// A name in place of an address, at this port.
    Named(u16),
}

fn socket(text: &str) -> Option<Read> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => match text.parse() {
            Ok(port) => ("*", port),
            Err(_) => (text, 80),
        },
    };
    if host == "unix" || text.starts_with("unix:") {
        return None;
    }
    let address = match host.trim_start_matches('[').trim_end_matches(']') {
        "*" => IpAddr::from([0, 0, 0, 0]),
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => match host.parse() {
            Ok(address) => address,
            Err(_) => return Some(Read::Named(port)),
        },
    };
    Some(Read::Known(Socket { address: Some(address), port }))
}

/// Whether a Host can have the name: others are refused here.
fn is_sent(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-._*$".contains(&byte)) || name.contains(':')
}

/// The names of a server that no request comes with here, and does in nginx.
pub(super) fn unsent(server: &Directive) -> Vec<&str> {
    let names = server.all("server_name").flat_map(|directive| &directive.arguments).map(String::as_str);
    names.filter(|name| !name.starts_with('~') && !name.is_empty() && !is_sent(name)).collect()
}

/// Names of a server, by the way that they match.
#[derive(Clone, Debug, Default)]
pub(super) struct Names {
    /// Names and wildcards in front, as routes have them.
    pub hosts: Vec<String>,
    /// Wildcards behind, as expressions, with their lengths; then regular expressions.
    behind: Vec<(usize, String)>,
    regexes: Vec<String>,
    /// Names that this machine has.
    unknown: Vec<String>,
    /// `server_name ""`, or none at all: requests without Host.
    pub(crate) is_for_nameless: bool,
}

impl Names {
    pub(super) fn of(server: &Directive) -> Names {
        let mut names = Names { is_for_nameless: server.one("server_name").is_none(), ..Names::default() };
        for name in server.all("server_name").flat_map(|directive| &directive.arguments) {
            let is_port = name.contains(':') && !name.contains('[');
            if let Some(pattern) = name.strip_prefix('~') {
                names.regexes.push(format!("(?i){pattern}"));
            } else if name.ends_with('.') || is_port || !is_sent(name) {
                // nginx compares hosts without a dot at the end and a port: no request has this name.
            } else if let Some(domain) = name.strip_prefix('.') {
                names.hosts.extend([domain.to_lowercase(), format!("*.{}", domain.to_lowercase())]);
            } else if let Some(start) = name.strip_suffix(".*") {
                names.behind.push((start.len(), format!("(?i)^{}\\.[^.]", regex::escape(start))));
            } else if name.is_empty() {
                names.is_for_nameless = true;
            } else if name.starts_with('$') {
                names.unknown.push(name.clone());
            } else {
                names.hosts.push(name.to_lowercase());
            }
        }
        names
    }

    /// Expressions with a rank: the higher one counts first. The error says why one is not known.
    pub(super) fn patterns(&self) -> impl Iterator<Item = (usize, Result<&str, String>)> {
        let unknown = self
            .unknown
            .iter()
            .map(|name| (usize::MAX, Err(format!("`server_name {name}` is not converted"))));
        let behind = self.behind.iter().map(|(length, pattern)| (1 + length, Ok(pattern.as_str())));
        unknown.chain(behind).chain(self.regexes.iter().map(|pattern| (0, Ok(pattern.as_str()))))
    }
}
