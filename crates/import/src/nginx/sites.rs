//! Which server of a file answers a request, by the socket that it came to and by its host.

mod names;
pub(super) mod part;
mod sockets;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use super::{
    condition::Condition,
    listen::{Listen, Listeners, Names, Shared, Socket, listens},
    made::{Made, Stop},
    parse::Directive,
};
use names::Rivals;

pub(crate) use self::part::{Part, Placement};

/// All servers of a file.
pub(crate) struct Sites {
    servers: Vec<(Made<Vec<Listen>>, Names)>,
    maps_addresses: Vec<bool>,
    place: Placement,
    listeners: Listeners,
    needed: Listeners,
    /// The servers at each socket.
    sockets: BTreeMap<Socket, Rivals>,
    /// Which sockets are served, each with the condition for requests that came to it.
    served: BTreeMap<Socket, Condition>,
}

impl Sites {
    pub(crate) fn of(servers: &[&Directive], place: Placement) -> Self {
        let shared = Shared::of(servers);
        let maps_addresses = servers.iter().map(|server| shared.maps_addresses(server)).collect();
        let mut servers: Vec<_> =
            servers.iter().map(|server| (listens(server, &shared), Names::of(server))).collect();
        let listeners = written(&servers);
        join_families(&mut servers);
        let mut sockets: BTreeMap<Socket, Rivals> = BTreeMap::new();
        for (index, listen, names) in all(&servers) {
            sockets.entry(listen.socket.clone()).or_default().add(index, listen, names);
        }
        let served = sockets::served(&sockets, place);
        let needed = sockets::needed(&sockets, place);
        Sites { servers, maps_addresses, place, listeners, needed, sockets, served }
    }

    pub(crate) fn listeners(&self) -> &Listeners {
        &self.listeners
    }

    /// Where the gateway has to listen, because routes answer there only.
    pub(crate) fn needed(&self) -> &Listeners {
        &self.needed
    }

    /// Whether clients of IPv4 come to a server at an address of IPv6.
    pub(crate) fn maps_addresses(&self, index: usize) -> bool {
        self.maps_addresses.get(index).is_some_and(|maps| *maps)
    }

    /// Why no client is served at an address of a server.
    pub(crate) fn fault(&self, index: usize) -> Option<&str> {
        let listens = self.servers.get(index).and_then(|(listens, _)| listens.as_ref().ok());
        listens.into_iter().flatten().find_map(|listen| listen.fault.as_deref())
    }

    /// What a server is to be asked for. The error says why it is closed; none: no listener of the gateway is its own.
    pub(crate) fn parts(&self, index: usize) -> Made<Vec<Part>> {
        let Some((listens, names)) = self.servers.get(index) else { return Ok(Vec::new()) };
        let listens = listens.as_ref().map_err(|stop| match stop {
            Stop::Closed(why) => Stop::Closed(why.clone()),
            Stop::Split(map) => Stop::Split(map.clone()),
        })?;
        let mut parts: Vec<Part> = Vec::new();
        for listen in listens {
            let (Some(condition), Some(rivals)) =
                (self.served.get(&listen.socket), self.sockets.get(&listen.socket))
            else {
                continue;
            };
            for part in rivals.parts(index, names, self.place.router_is_unknown())? {
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

    /// For a server without parts.
    pub(crate) fn why_unreached(&self, index: usize) -> String {
        let listens = self.servers.get(index).and_then(|(listens, _)| listens.as_ref().ok());
        let sockets: Vec<String> = listens.into_iter().flatten().map(|listen| listen.socket.text()).collect();
        let is_served = listens.into_iter().flatten().any(|listen| self.served.contains_key(&listen.socket));
        if let Some(fault) = self.fault(index).filter(|_| !is_served) {
            return fault.to_owned();
        }
        match (sockets.is_empty(), self.place) {
            (true, _) => "it listens on no address that the gateway can listen on".to_owned(),
            (false, Placement::Replaced(_)) if !is_served => {
                format!(
                    "it listens on {}, which --listen or apisix.node_listen does not cover",
                    sockets.join(", ")
                )
            }
            (false, _) => "other servers have its names".to_owned(),
        }
    }
}

fn all(servers: &[(Made<Vec<Listen>>, Names)]) -> impl Iterator<Item = (usize, &Listen, &Names)> {
    servers.iter().enumerate().flat_map(|(index, (listens, names))| {
        listens.iter().flatten().map(move |listen| (index, listen, names))
    })
}

fn written(servers: &[(Made<Vec<Listen>>, Names)]) -> Listeners {
    let mut listeners = Listeners::default();
    for (_, listen, _) in all(servers).filter(|(_, listen, _)| listen.fault.is_none()) {
        let kind = if listen.tls { &mut listeners.tls } else { &mut listeners.plain };
        kind.extend(listen.socket.address.map(|address| (address, listen.socket.port)));
    }
    // A socket has one kind: nginx takes TLS where any server asks for it.
    listeners.plain = listeners.plain.difference(&listeners.tls).copied().collect();
    listeners
}

/// `listen 80` and `listen [::]:80` are one socket unless different servers are there.
fn join_families(servers: &mut [(Made<Vec<Listen>>, Names)]) {
    let mut families: BTreeMap<u16, [Vec<(usize, bool, bool, bool)>; 2]> = BTreeMap::new();
    for (index, listen, _) in all(servers) {
        let Some(address) = listen.socket.address.filter(IpAddr::is_unspecified) else { continue };
        let [v4, v6] = families.entry(listen.socket.port).or_default();
        let family = if address.is_ipv4() { v4 } else { v6 };
        family.push((index, listen.tls, listen.default, listen.fault.is_some()));
    }
    let differ =
        |port: &u16| families.get(port).is_some_and(|[v4, v6]| !v4.is_empty() && !v6.is_empty() && v4 != v6);
    for listens in servers.iter_mut().filter_map(|(listens, _)| listens.as_mut().ok()) {
        for listen in listens.iter_mut().filter(|listen| !differ(&listen.socket.port)) {
            listen.socket.address = listen.socket.address.filter(|address| !address.is_unspecified());
        }
        let mut seen = BTreeSet::new();
        listens.retain(|listen| seen.insert(listen.socket.clone()));
    }
}
