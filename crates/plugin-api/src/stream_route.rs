//! The stream routes of a snapshot, and which of them a session belongs to.

use std::{
    net::SocketAddr,
    sync::{Arc, atomic::AtomicUsize},
};

use rustc_hash::FxHashMap;
use tidegate_routing::{AddressSet, expr::Expression};

use crate::{
    Variable,
    protocol::{Call, Protocol},
    route::RouteUpstream,
    session::{Session, StreamOwner, StreamPlugin},
};

/// Which sessions a stream route is for. What is not set holds for all.
#[derive(Debug, Default)]
pub struct StreamConditions {
    /// Of the client.
    pub remote: Option<AddressSet>,
    /// That the client connected to.
    pub local: Option<AddressSet>,
    /// One of these the client connected to; empty: any.
    pub ports: Vec<u16>,
    /// Names, or `*` and the end of names; in lower case. Empty: no name is asked for.
    pub names: Vec<Box<str>>,
    /// `sni` cannot be read: it may be any name, and the route, which is broken, comes before all others.
    pub any_name: bool,
    /// `server_port` cannot be read: it may be any port.
    pub any_port: bool,
    /// Any condition but the port may be lost: it may be meant for any session, and the route, which is broken, comes before all
    /// others.
    pub any_session: bool,
}

/// A plugin of a stream route.
pub struct StreamInstance {
    /// Of the plugin.
    pub name: &'static str,
    /// `_meta.priority`, else the plugin's own.
    pub priority: i64,
    /// `_meta.filter`: the plugin runs only where this holds.
    pub filter: Option<Expression<Variable>>,
    /// Built of the configuration.
    pub plugin: Arc<dyn StreamPlugin>,
}

impl StreamInstance {
    /// Whether it runs for this session.
    pub fn applies(&self, session: &Session) -> bool {
        self.filter.as_ref().is_none_or(|filter| filter.eval(session))
    }
}

/// A compiled stream route.
pub struct StreamRoute {
    /// Names it.
    pub owner: Arc<StreamOwner>,
    /// Which sessions it is for.
    pub conditions: StreamConditions,
    /// By falling priority.
    pub plugins: Vec<Arc<StreamInstance>>,
    /// Where it sends sessions.
    pub upstream: RouteUpstream,
    /// Of its sessions of TCP; `None`: their bytes are not looked at.
    pub protocol: Option<RouteProtocol>,
    /// A part of it cannot be built: its sessions are closed.
    pub is_broken: bool,
    /// Its open sessions; kept over changes.
    pub open: Arc<AtomicUsize>,
}

/// What of a session decides its route.
#[derive(Clone, Copy, Debug)]
pub struct StreamQuestion<'a> {
    /// The client's address.
    pub remote: SocketAddr,
    /// The address that it connected to.
    pub local: SocketAddr,
    /// In lower case.
    pub server_name: Option<&'a str>,
    /// TLS ends here. Where it does not, a name is only looked for on ports that a route with `sni` names.
    pub terminated: bool,
}

/// All stream routes, in the order in which they are tried.
#[derive(Default)]
pub struct StreamTable {
    routes: Vec<Arc<StreamRoute>>,
    /// Without `sni`, by port; the second list is of those for any port.
    by_port: FxHashMap<u16, Vec<u32>>,
    any_port: Vec<u32>,
    /// By the whole name, and by what follows a `*`.
    names: FxHashMap<Box<str>, Vec<u32>>,
    endings: FxHashMap<Box<str>, Vec<u32>>,
    /// Ports that routes with `sni` name.
    named_ports: FxHashMap<u16, Vec<u32>>,
    /// Routes with a name whose port cannot be read.
    named_anywhere: Vec<u32>,
    /// Routes whose name cannot be read.
    any_name: Vec<u32>,
    /// Routes that may be meant for any session.
    any_session: Vec<u32>,
}

impl StreamTable {
    /// Of routes in the order in which they are tried.
    pub fn new(routes: Vec<Arc<StreamRoute>>) -> StreamTable {
        let mut table = StreamTable::default();
        for (at, route) in (0u32..).zip(&routes) {
            table.add(at, &route.conditions);
        }
        table.routes = routes;
        table
    }

    fn add(&mut self, at: u32, conditions: &StreamConditions) {
        let StreamConditions { ports, names, any_name, any_port, any_session, .. } = conditions;
        if *any_session {
            return self.any_session.push(at);
        }
        let is_named = *any_name || !names.is_empty();
        let by_port = if is_named { &mut self.named_ports } else { &mut self.by_port };
        for port in ports {
            by_port.entry(*port).or_default().push(at);
        }
        match (is_named, ports.is_empty()) {
            (true, true) if *any_port => self.named_anywhere.push(at),
            (false, true) => self.any_port.push(at),
            _ => {}
        }
        if *any_name {
            self.any_name.push(at);
        }
        for name in names {
            match name.strip_prefix('*') {
                Some(end) => self.endings.entry(end.into()).or_default().push(at),
                None => self.names.entry(name.clone()).or_default().push(at),
            }
        }
    }

    /// All of them.
    pub fn routes(&self) -> &[Arc<StreamRoute>] {
        &self.routes
    }

    /// Whether the name in the first bytes of a connection decides its route, although TLS does not end here.
    pub fn looks_for_name(&self, question: &StreamQuestion) -> bool {
        let named = self.named_ports.get(&question.local.port()).into_iter().flatten();
        named
            .chain(&self.named_anywhere)
            .filter_map(|at| self.routes.get(*at as usize))
            .any(|route| route.conditions.meets(question))
    }

    /// The route of a session: one that may be meant for any, one whose name cannot be read, by the whole name, by the longest ending of
    /// it, else among those without a name.
    pub fn find(&self, question: &StreamQuestion) -> Option<&Arc<StreamRoute>> {
        let mut lost = self.any_session.iter().filter_map(|at| self.routes.get(*at as usize));
        if let Some(route) = lost.find(|route| route.conditions.meets(question)) {
            return Some(route);
        }
        if let Some(name) = question.server_name {
            let whole = self.names.get(name).and_then(|list| self.first(list, question));
            let ending = |start| {
                let list = self.endings.get(name.get(start..)?)?;
                self.first(list, question)
            };
            let unread = self.first(&self.any_name, question);
            let by_name = unread.or(whole).or_else(|| (0..=name.len()).find_map(ending));
            if by_name.is_some() {
                return by_name;
            }
        }
        let with_port = self.by_port.get(&question.local.port()).map_or(&[][..], Vec::as_slice);
        let at = merged(with_port, &self.any_port)
            .find(|at| self.routes.get(*at as usize).is_some_and(|route| route.conditions.meets(question)))?;
        self.routes.get(at as usize)
    }

    fn first(&self, list: &[u32], question: &StreamQuestion) -> Option<&Arc<StreamRoute>> {
        let listed = list.iter().filter_map(|at| self.routes.get(*at as usize));
        let has_port = |conditions: &StreamConditions| !conditions.ports.is_empty() || conditions.any_port;
        let mut applicable = listed.filter(|route| question.terminated || has_port(&route.conditions));
        applicable.find(|route| route.conditions.meets(question))
    }
}

/// Two rising lists as one.
fn merged<'a>(one: &'a [u32], other: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
    let (mut one, mut other) = (one.iter().copied().peekable(), other.iter().copied().peekable());
    std::iter::from_fn(move || match (one.peek().copied(), other.peek().copied()) {
        (Some(first), Some(second)) if first < second => one.next(),
        (Some(_), None) => one.next(),
        _ => other.next(),
    })
}

impl StreamConditions {
    /// All but the name.
    fn meets(&self, question: &StreamQuestion) -> bool {
        let has = |set: &Option<AddressSet>, address: SocketAddr| {
            set.as_ref().is_none_or(|set| set.contains(address.ip().to_canonical()))
        };
        (self.ports.is_empty() || self.ports.contains(&question.local.port()))
            && has(&self.remote, question.remote)
            && has(&self.local, question.local)
    }
}

/// The protocol of a stream route, and what logs its calls.
pub struct RouteProtocol {
    /// What tells them.
    pub protocol: Arc<dyn Protocol>,
    /// Each with its `filter`.
    pub loggers: Vec<StreamInstance>,
}

impl RouteProtocol {
    /// Logs a call.
    pub fn log(&self, session: &mut Session, call: Call) {
        if self.loggers.is_empty() {
            return;
        }
        let before = session.variables.len();
        session.variables.push(("rpc_time".into(), format!("{:.3}", call.took.as_secs_f64()).into_bytes()));
        let named = call.variables.into_iter().map(|(name, value)| (Box::from(name), value));
        session.variables.extend(named);
        for logger in self.loggers.iter().filter(|logger| logger.applies(session)).collect::<Vec<_>>() {
            logger.plugin.log(session);
        }
        session.variables.truncate(before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn route(id: &str, remote: Option<&str>, port: Option<u16>, sni: Option<&str>) -> Arc<StreamRoute> {
        let remote = remote.map(|text| AddressSet::parse([text]).unwrap());
        Arc::new(StreamRoute {
            owner: Arc::new(StreamOwner { id: id.into(), ..StreamOwner::default() }),
            conditions: StreamConditions {
                remote,
                ports: port.into_iter().filter(|port| *port != 0).collect(),
                any_name: sni == Some("?"),
                any_port: port == Some(0),
                any_session: sni == Some("!"),
                names: sni.into_iter().filter(|name| !["?", "!"].contains(name)).map(Box::from).collect(),
                ..StreamConditions::default()
            },
            plugins: Vec::new(),
            upstream: RouteUpstream::None,
            protocol: None,
            is_broken: false,
            open: Arc::default(),
        })
    }

    #[test]
    fn what_cannot_be_read_of_a_place_comes_first() {
        // `?`: a name that cannot be read, 0: such a port.
        let table = StreamTable::new(vec![
            route("1", None, None, None),
            route("2", None, Some(9100), Some("a.test")),
            route("3", None, Some(9100), Some("?")),
            route("4", None, Some(0), Some("b.test")),
        ]);
        for (port, name, expected, looks) in [
            (9100, Some("a.test"), "3", true),
            (9100, None, "1", true),
            (9200, Some("b.test"), "4", true),
            (9200, Some("a.test"), "1", true),
        ] {
            let question = StreamQuestion {
                remote: "127.0.0.1:1".parse().unwrap(),
                local: format!("127.0.0.1:{port}").parse().unwrap(),
                server_name: name,
                terminated: false,
            };
            let found = table.find(&question).unwrap().owner.id.to_string();
            assert_eq!((&*found, table.looks_for_name(&question)), (expected, looks), "{port} {name:?}");
        }
    }

    #[test]
    fn a_route_that_may_be_meant_for_any_session_comes_first() {
        // `!`: any condition but the port may be lost.
        let table = StreamTable::new(vec![
            route("1", None, None, None),
            route("2", None, Some(9100), Some("a.test")),
            route("3", None, Some(9100), Some("!")),
        ]);
        for (port, name, expected) in
            [(9100, Some("a.test"), "3"), (9100, None, "3"), (9200, Some("a.test"), "1"), (9200, None, "1")]
        {
            let question = StreamQuestion {
                remote: "127.0.0.1:1".parse().unwrap(),
                local: format!("127.0.0.1:{port}").parse().unwrap(),
                server_name: name,
                terminated: false,
            };
            assert_eq!(&*table.find(&question).unwrap().owner.id, expected, "{port} {name:?}");
        }
    }

    #[test]
    fn names_go_before_ports_and_ports_keep_their_order() {
        let table = StreamTable::new(vec![
            route("1", Some("10.0.0.0/8"), None, None),
            route("2", None, Some(9100), None),
            route("3", None, None, Some("a.test")),
            route("4", None, None, Some("*.test")),
            route("5", None, None, Some("*.b.test")),
            route("6", None, Some(9200), Some("*")),
            route("7", None, None, None),
        ]);
        let found = |remote: &str, port: u16, name: Option<&str>, terminated: bool| {
            let question = StreamQuestion {
                remote: format!("{remote}:1").parse().unwrap(),
                local: format!("127.0.0.1:{port}").parse().unwrap(),
                server_name: name,
                terminated,
            };
            (table.find(&question).unwrap().owner.id.to_string(), table.looks_for_name(&question))
        };
        for (remote, port, name, terminated, expected, looks) in [
            ("10.1.1.1", 9100, None, false, "1", false),
            ("127.0.0.1", 9100, None, false, "2", false),
            ("127.0.0.1", 9101, None, false, "7", false),
            ("10.1.1.1", 9100, Some("a.test"), true, "3", false),
            ("10.1.1.1", 9100, Some("c.test"), true, "4", false),
            ("10.1.1.1", 9100, Some("x.a.b.test"), true, "5", false),
            ("127.0.0.1", 9100, Some("test"), true, "2", false),
            ("127.0.0.1", 9100, Some("a.test"), false, "2", false),
            ("127.0.0.1", 9200, Some("any.name"), false, "6", true),
            ("127.0.0.1", 9200, None, false, "7", true),
        ] {
            let case = format!("{remote} {port} {name:?}");
            assert_eq!(found(remote, port, name, terminated), (expected.to_owned(), looks), "{case}");
        }
    }
}
