//! Which server of a file answers a request, by the socket that it came to and by its host.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use serde_json::json;

use super::{
    condition::Condition,
    listen::{Listen, Listeners, Names, Socket, listens},
    parse::Directive,
    patterns,
    variables::{Made, Stop},
};

/// Routes of a server for some of its sockets and names.
#[derive(Clone, Debug)]
pub struct Part {
    /// Empty: any.
    pub hosts: Vec<String>,
    pub condition: Condition,
    pub is_default: bool,
}

/// Which listeners the gateway has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// As the file says.
    Written,
    /// One public listener of the gateway's own, and one for TLS, in place of the file's.
    /// With a port: in place of those at this one.
    Replaced(Option<u16>),
    /// Those of a running gateway: routes answer where the file says, if it listens there.
    Running,
    /// Those of a gateway to come: what is public here is public there, the rest answers where the file says.
    #[default]
    Elsewhere,
}

/// All servers of a file.
pub struct Sites<'a> {
    servers: Vec<(&'a Directive, Made<Vec<Listen>>, Names)>,
    place: Placement,
    listeners: Listeners,
}

impl<'a> Sites<'a> {
    pub fn of(servers: &[&'a Directive], place: Placement) -> Self {
        let servers = servers.iter().map(|server| (*server, listens(server), Names::of(server))).collect();
        let mut sites = Sites { servers, place, listeners: Listeners::default() };
        sites.listeners = sites.written();
        sites.join_families();
        sites
    }

    fn all(&self) -> impl Iterator<Item = (usize, &Listen)> {
        self.servers.iter().enumerate().flat_map(listens_of)
    }

    pub fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    fn written(&self) -> Listeners {
        let mut listeners = Listeners::default();
        for (_, listen) in self.all() {
            let kind = if listen.tls { &mut listeners.tls } else { &mut listeners.plain };
            kind.extend(listen.socket.address.map(|address| (address, listen.socket.port)));
        }
        // A socket has one kind: nginx takes TLS where any server asks for it.
        listeners.plain = listeners.plain.difference(&listeners.tls).copied().collect();
        listeners
    }

    /// `listen 80` and `listen [::]:80` are one socket unless different servers are there.
    fn join_families(&mut self) {
        let ports: BTreeSet<u16> = self.all().map(|(_, listen)| listen.socket.port).collect();
        for port in ports {
            let at = |address: IpAddr| -> Vec<(usize, bool, bool)> {
                let socket = Socket { address: Some(address), port };
                let listens = self.all().filter(|(_, listen)| listen.socket == socket);
                listens.map(|(server, listen)| (server, listen.tls, listen.default)).collect()
            };
            let (v4, v6) = (at(IpAddr::from([0, 0, 0, 0])), at(IpAddr::from([0_u16; 8])));
            if !v4.is_empty() && !v6.is_empty() && v4 != v6 {
                continue;
            }
            for listen in
                self.servers.iter_mut().filter_map(|(_, listens, _)| listens.as_mut().ok()).flatten()
            {
                let is_any = listen.socket.address.is_some_and(|address| address.is_unspecified());
                if listen.socket.port == port && is_any {
                    listen.socket.address = None;
                }
            }
        }
        for (_, listens, _) in &mut self.servers {
            let Ok(listens) = listens else { continue };
            let mut seen = BTreeSet::new();
            listens.retain(|listen| seen.insert(listen.socket.clone()));
        }
    }

    /// The public sockets that one listener of a gateway stands for: of the usual port, else the first.
    fn main(&self, tls: bool) -> BTreeSet<Socket> {
        let sockets: BTreeSet<&Socket> =
            self.all().filter(|(_, listen)| listen.tls == tls).map(|(_, listen)| &listen.socket).collect();
        if let Placement::Replaced(Some(port)) = self.place {
            return sockets.into_iter().filter(|socket| socket.port == port).cloned().collect();
        }
        let usual = if tls { 443 } else { 80 };
        let public = || sockets.iter().filter(|socket| socket.is_public());
        let chosen = public().find(|socket| socket.port == usual).or_else(|| public().next());
        let Some(port) = chosen.map(|socket| socket.port) else { return BTreeSet::new() };
        // The same port on other addresses is the same listener where the same servers are there.
        let at_port = || public().filter(|socket| socket.port == port);
        let is_any = |socket: &&&Socket| socket.address.is_none_or(|address| address.is_unspecified());
        let servers = |socket: &Socket| -> Vec<(usize, bool)> {
            let here = self.all().filter(|(_, listen)| listen.socket == *socket);
            here.map(|(server, listen)| (server, listen.default)).collect()
        };
        let chosen: Vec<&Socket> = at_port().filter(|socket| is_any(socket)).copied().collect();
        if !chosen.is_empty() {
            return chosen.into_iter().cloned().collect();
        }
        let first = at_port().next().map(|socket| servers(socket));
        at_port().filter(|socket| Some(servers(socket)) == first).map(|socket| (*socket).clone()).collect()
    }

    /// Which sockets are served, each with the condition for requests that came to it.
    fn served(&self) -> BTreeMap<Socket, Condition> {
        let all: BTreeMap<Socket, bool> =
            self.all().map(|(_, listen)| (listen.socket.clone(), listen.tls)).collect();
        let (plain, tls) = (self.main(false), self.main(true));
        let is_main = |socket: &Socket| plain.contains(socket) || tls.contains(socket);
        let scheme = |tls: bool| match plain.is_empty() || self.main(true).is_empty() {
            true => Condition::Always,
            false => Condition::test("scheme", "==", if tls { "https" } else { "http" }),
        };
        let exact = |socket: &Socket| {
            let port = Condition::test("server_port", "~~", format!("^{}$", socket.port));
            let address = match socket.address {
                Some(address) if address.is_unspecified() => {
                    let own = all.keys().filter(|other| other.port == socket.port);
                    let own =
                        own.filter_map(|other| other.address.filter(|address| !address.is_unspecified()));
                    let own: Vec<String> = own.map(|address| address.to_string()).collect();
                    let rest = if own.is_empty() {
                        Condition::Always
                    } else {
                        Condition::test("server_addr", "ipmatch", json!(own)).negated()
                    };
                    Condition::all([family(socket), rest])
                }
                Some(address) => Condition::test("server_addr", "ipmatch", json!([address.to_string()])),
                None => {
                    let own = all.keys().filter(|other| other.port == socket.port);
                    let own = own.filter_map(|other| other.address.map(|address| address.to_string()));
                    let own: Vec<String> = own.collect();
                    match own.is_empty() {
                        true => Condition::Always,
                        false => Condition::test("server_addr", "ipmatch", json!(own)).negated(),
                    }
                }
            };
            Condition::all([port, address])
        };
        let mut served = BTreeMap::new();
        for (socket, is_tls) in &all {
            let condition = match self.place {
                Placement::Written if all.len() == 1 => Condition::Always,
                Placement::Replaced(_) if is_main(socket) => {
                    Condition::all([scheme(*is_tls), family(socket)])
                }
                Placement::Replaced(_) => continue,
                Placement::Elsewhere if is_main(socket) => {
                    let others = all.keys().filter(|other| !is_main(other)).map(&exact);
                    Condition::all([scheme(*is_tls), family(socket), Condition::any(others).negated()])
                }
                Placement::Written | Placement::Running | Placement::Elsewhere => exact(socket),
            };
            served.insert(socket.clone(), condition);
        }
        served
    }

    /// What a server is to be asked for. The error says why it is closed; none: no listener of the gateway is its own.
    pub fn parts(&self, index: usize) -> Made<Vec<Part>> {
        let Some((_, listens, _)) = self.servers.get(index) else { return Ok(Vec::new()) };
        let listens = listens.as_ref().map_err(|stop| match stop {
            Stop::Closed(why) => Stop::Closed(why.clone()),
            Stop::Split(map) => Stop::Split(map.clone()),
        })?;
        let served = self.served();
        let mut parts: Vec<Part> = Vec::new();
        for listen in listens {
            let Some(condition) = served.get(&listen.socket) else { continue };
            for part in self.of_socket(index, &listen.socket)? {
                // The same on several sockets is one.
                let same = parts
                    .iter_mut()
                    .find(|known| known.hosts == part.hosts && known.is_default == part.is_default);
                let whole = Condition::all([condition.clone(), part.condition]);
                match same {
                    Some(known) if known.condition == whole => {}
                    Some(known) => known.condition = Condition::any([known.condition.clone(), whole]),
                    None => parts.push(Part { condition: whole, ..part }),
                }
            }
        }
        Ok(parts)
    }

    /// A router that goes by paths first would give a server names that belong to others.
    fn router_is_unknown(&self) -> bool {
        matches!(self.place, Placement::Running | Placement::Elsewhere)
    }

    /// Names of other servers that wildcards of this one match as well.
    fn longer_names<'s>(&'s self, index: usize, rivals: &[usize], own: &[String]) -> BTreeSet<&'s str> {
        if !self.router_is_unknown() {
            return BTreeSet::new();
        }
        let others =
            rivals.iter().filter(|server| **server != index).filter_map(|server| self.servers.get(*server));
        let names = others.flat_map(|(_, _, names)| names.hosts.iter().map(String::as_str));
        let is_below = |name: &str| {
            own.iter()
                .filter_map(|wildcard| wildcard.strip_prefix('*'))
                .any(|end| name.trim_start_matches("*.").len() >= end.len() && name.ends_with(end))
        };
        names.filter(|name| is_below(name) && !own.iter().any(|own| own == name)).collect()
    }

    /// For a server without parts.
    pub fn why_unreached(&self, index: usize) -> String {
        let listens = self.servers.get(index).and_then(|(_, listens, _)| listens.as_ref().ok());
        let sockets: Vec<String> = listens.into_iter().flatten().map(|listen| listen.socket.text()).collect();
        let served = self.served();
        let is_served = listens.into_iter().flatten().any(|listen| served.contains_key(&listen.socket));
        match (sockets.is_empty(), self.place) {
            (true, _) => "it listens at no address that the gateway can listen at".to_owned(),
            (false, Placement::Replaced(_)) if !is_served => {
                format!(
                    "it listens at {}, which --listen or apisix.node_listen does not stand for",
                    sockets.join(", ")
                )
            }
            (false, _) => "other servers have its names".to_owned(),
        }
    }

    /// Names of a server on one socket, without those that another one has first.
    fn of_socket(&self, index: usize, socket: &Socket) -> Made<Vec<Part>> {
        let rivals: Vec<usize> =
            self.all().filter(|(_, listen)| listen.socket == *socket).map(|(server, _)| server).collect();
        let default = self
            .all()
            .find(|(_, listen)| listen.socket == *socket && listen.default)
            .map(|(server, _)| server)
            .or_else(|| rivals.first().copied());
        let names = |server: usize| self.servers.get(server).map(|(_, _, names)| names);
        let Some(own) = names(index) else { return Ok(Vec::new()) };
        let earlier =
            || rivals.iter().take_while(|server| **server != index).filter_map(|server| names(*server));
        let hosts: Vec<String> = own
            .hosts
            .iter()
            .filter(|host| !earlier().any(|other| other.hosts.contains(host)))
            .cloned()
            .collect();
        let host = |pattern: &str| patterns::matches("host", pattern).map_err(Stop::Closed);
        let mut parts = Vec::new();
        let is_default = default == Some(index);
        // The default server's own names lead to it as all unknown ones do, unless names of others match them too.
        let has_rivals =
            rivals.iter().filter(|server| **server != index).filter_map(|server| names(*server)).any(
                |other| {
                    other.patterns().next().is_some() || other.hosts.iter().any(|host| host.starts_with("*."))
                },
            );
        if !hosts.is_empty() && (has_rivals || !is_default) {
            let longer = self.longer_names(index, &rivals, &hosts);
            let condition = match longer.is_empty() {
                true => Condition::Always,
                false => host(&hosts_pattern(&longer))?.negated(),
            };
            parts.push(Part { hosts, condition, is_default: false });
        }
        let mut own_patterns = Vec::new();
        for (rank, pattern) in own.patterns() {
            let mut before = Vec::new();
            for (order, server) in rivals.iter().enumerate() {
                for (other_rank, other) in names(*server).into_iter().flat_map(Names::patterns) {
                    let first = other_rank > rank
                        || (other_rank == rank && rivals.iter().position(|one| one == &index) > Some(order));
                    if *server != index && first {
                        before.push(host(other)?);
                    }
                }
            }
            own_patterns.push(Condition::all([host(pattern)?, Condition::any(before).negated()]));
        }
        if !own_patterns.is_empty() && !is_default {
            parts.push(Part {
                hosts: Vec::new(),
                condition: Condition::any(own_patterns.clone()),
                is_default: false,
            });
        }
        if is_default {
            // All other names, but for those that expressions of other servers match.
            let mut others = Vec::new();
            for server in rivals.iter().filter(|server| **server != index) {
                for (_, pattern) in names(*server).into_iter().flat_map(Names::patterns) {
                    others.push(host(pattern)?);
                }
            }
            let named: BTreeSet<&str> = rivals
                .iter()
                .filter(|server| **server != index)
                .filter_map(|server| names(*server))
                .flat_map(|names| names.hosts.iter().map(String::as_str))
                .collect();
            if !named.is_empty() && self.router_is_unknown() {
                others.push(host(&hosts_pattern(&named))?);
            }
            let takes_nameless = |server: &usize| {
                *server != index && names(*server).is_some_and(|names| names.is_for_nameless)
            };
            if rivals.iter().any(takes_nameless) {
                others.push(patterns::is_empty("http_host"));
            }
            let rest = Condition::any(others).negated();
            let condition = Condition::any([rest].into_iter().chain(own_patterns));
            parts.push(Part { hosts: Vec::new(), condition, is_default: true });
        }
        Ok(parts)
    }
}

/// An expression for names and for wildcards in front.
fn hosts_pattern(hosts: &BTreeSet<&str>) -> String {
    let one = |host: &&str| match host.strip_prefix("*.") {
        Some(domain) => format!(".+\\.{}", regex::escape(domain)),
        None => regex::escape(host),
    };
    format!("(?i)^(?:{})$", hosts.iter().map(one).collect::<Vec<_>>().join("|"))
}

/// Of 0.0.0.0 and ::, where different servers are there.
fn family(socket: &Socket) -> Condition {
    let network = match socket.address {
        Some(address) if address.is_unspecified() => {
            if address.is_ipv4() {
                "0.0.0.0/0"
            } else {
                "::/0"
            }
        }
        _ => return Condition::Always,
    };
    Condition::test("server_addr", "ipmatch", json!([network]))
}

fn listens_of<'s>(
    (index, (_, listens, _)): (usize, &'s (&Directive, Made<Vec<Listen>>, Names)),
) -> impl Iterator<Item = (usize, &'s Listen)> {
    listens.iter().flatten().map(move |listen| (index, listen))
}
