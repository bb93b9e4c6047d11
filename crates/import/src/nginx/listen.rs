//! `listen` and `server_name`.
//!
//! nginx chooses by the address and port that a connection came to, then by name: the exact one, the longest wildcard in
//! front, the longest behind, the first regular expression, the default server.

use std::{collections::BTreeSet, net::IpAddr};

use super::{
    parse::Directive,
    variables::{Made, Stop},
};

/// An address and a port of the file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Socket {
    /// `None`: all addresses. 0.0.0.0 and :: stand here where different servers listen at them.
    pub address: Option<IpAddr>,
    pub port: u16,
}

impl Socket {
    pub fn is_public(&self) -> bool {
        !self.address.is_some_and(|address| address.is_loopback())
    }

    pub fn text(&self) -> String {
        match self.address {
            None => format!("*:{}", self.port),
            Some(IpAddr::V6(address)) => format!("[{address}]:{}", self.port),
            Some(address) => format!("{address}:{}", self.port),
        }
    }
}

/// What a gateway has to listen at to be where the file says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listeners {
    pub plain: BTreeSet<(IpAddr, u16)>,
    pub tls: BTreeSet<(IpAddr, u16)>,
}

#[derive(Clone, Debug)]
pub struct Listen {
    pub socket: Socket,
    pub tls: bool,
    pub default: bool,
}

/// Why a server cannot be served at some of its addresses.
pub fn listens(server: &Directive) -> Made<Vec<Listen>> {
    let on = server.one("ssl").is_some_and(|ssl| ssl.argument(0) == "on");
    let mut all = Vec::new();
    let mut has_any = false;
    for listen in server.all("listen") {
        has_any = true;
        let has = |word: &str| listen.arguments.iter().any(|argument| argument == word);
        if has("proxy_protocol") {
            return Err(Stop::closed("`listen` with `proxy_protocol` is not converted"));
        }
        // The same port is there for TCP as well.
        if has("quic") || listen.argument(0).starts_with("unix:") {
            continue;
        }
        let socket = socket(listen.argument(0))
            .ok_or_else(|| Stop::closed(format!("`{}` is not an address and port", listen.title())))?;
        let default = has("default_server") || has("default");
        if has("ipv6only=off") && socket.address == Some(IpAddr::from([0_u16; 8])) {
            let both = Socket { address: Some(IpAddr::from([0, 0, 0, 0])), port: socket.port };
            if !all.iter().any(|known: &Listen| known.socket == both) {
                all.push(Listen { socket: both, tls: has("ssl") || on, default });
            }
        }
        let known = all.iter_mut().find(|known: &&mut Listen| known.socket == socket);
        match known {
            Some(known) => known.default |= default,
            None => all.push(Listen { socket, tls: has("ssl") || on, default }),
        }
    }
    if !has_any {
        let address = Some(IpAddr::from([0, 0, 0, 0]));
        all.push(Listen { socket: Socket { address, port: 80 }, tls: on, default: false });
    }
    Ok(all)
}

fn socket(text: &str) -> Option<Socket> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) if !host.contains(':') || host.ends_with(']') => (host, port.parse().ok()?),
        _ => match text.parse() {
            Ok(port) => ("*", port),
            Err(_) => (text, 80),
        },
    };
    let address = match host.trim_start_matches('[').trim_end_matches(']') {
        "*" => IpAddr::from([0, 0, 0, 0]),
        "localhost" => IpAddr::from([127, 0, 0, 1]),
        host => host.parse().ok()?,
    };
    Some(Socket { address: Some(address), port })
}

/// Names of a server, by the way that they match.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names and wildcards in front, as routes have them.
    pub hosts: Vec<String>,
    /// Wildcards behind, as expressions, with their lengths; then regular expressions.
    behind: Vec<(usize, String)>,
    regexes: Vec<String>,
    /// `server_name ""`: requests without Host.
    pub is_for_nameless: bool,
}

impl Names {
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty() && self.behind.is_empty() && self.regexes.is_empty()
    }

    pub fn of(server: &Directive) -> Names {
        let mut names = Names::default();
        for name in server.all("server_name").flat_map(|directive| &directive.arguments) {
            if let Some(pattern) = name.strip_prefix('~') {
                names.regexes.push(format!("(?i){pattern}"));
            } else if let Some(domain) = name.strip_prefix('.') {
                names.hosts.extend([domain.to_lowercase(), format!("*.{}", domain.to_lowercase())]);
            } else if let Some(start) = name.strip_suffix(".*") {
                names.behind.push((start.len(), format!("(?i)^{}\\.[^.]", regex::escape(start))));
            } else if name.is_empty() {
                names.is_for_nameless = true;
            } else if name != "_" {
                names.hosts.push(name.to_lowercase());
            }
        }
        names
    }

    /// Expressions with a rank: the higher one counts first.
    pub fn patterns(&self) -> impl Iterator<Item = (usize, &str)> {
        let behind = self.behind.iter().map(|(length, pattern)| (1 + length, pattern.as_str()));
        behind.chain(self.regexes.iter().map(|pattern| (0, pattern.as_str())))
    }
}
