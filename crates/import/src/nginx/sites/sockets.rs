//! Which sockets of the file the gateway serves, and how a request shows that it came to one.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
};

use serde_json::json;

use super::{
    super::{
        condition::Condition,
        listen::{Listeners, Socket},
    },
    names::Rivals,
    part::Placement,
};

type Sockets = BTreeMap<Socket, Rivals>;

pub(super) fn served(all: &Sockets, place: Placement) -> BTreeMap<Socket, Condition> {
    let (plain, tls) = (main(all, place, false), main(all, place, true));
    let is_main = |socket: &Socket| plain.contains(socket) || tls.contains(socket);
    let scheme = |tls_here: bool| match plain.is_empty() || tls.is_empty() {
        true => Condition::Always,
        false => Condition::test("scheme", "==", if tls_here { "https" } else { "http" }),
    };
    let mut addresses: BTreeMap<u16, Vec<IpAddr>> = BTreeMap::new();
    for socket in all.keys() {
        addresses.entry(socket.port).or_default().extend(socket.address);
    }
    let exact = |socket: &Socket| came_to(socket, addresses.get(&socket.port).map(Vec::as_slice));
    let mut served = BTreeMap::new();
    for (socket, rivals) in all.iter().filter(|(_, rivals)| rivals.fault.is_none()) {
        let condition = match place {
            Placement::Written if all.len() == 1 => Condition::Always,
            Placement::Replaced(_) if is_main(socket) => {
                Condition::all([scheme(rivals.is_tls), family(socket)])
            }
            Placement::Replaced(_) => continue,
            Placement::Elsewhere if is_main(socket) => {
                let others = all.keys().filter(|other| !is_main(other)).map(&exact);
                Condition::all([scheme(rivals.is_tls), family(socket), Condition::any(others).negated()])
            }
            Placement::Written | Placement::Running | Placement::Elsewhere => exact(socket),
        };
        served.insert(socket.clone(), condition);
    }
    served
}

/// Where the gateway has to listen, because the routes of servers there answer nowhere else.
pub(super) fn needed(all: &Sockets, place: Placement) -> Listeners {
    let mut needed = Listeners::default();
    let stood_for: BTreeSet<Socket> = match place {
        Placement::Running => BTreeSet::new(),
        Placement::Elsewhere => main(all, place, false).into_iter().chain(main(all, place, true)).collect(),
        Placement::Written | Placement::Replaced(_) => return needed,
    };
    for (socket, rivals) in all {
        if rivals.fault.is_none() && !stood_for.contains(socket) {
            let kind = if rivals.is_tls { &mut needed.tls } else { &mut needed.plain };
            kind.insert((socket.address.unwrap_or(IpAddr::from([0, 0, 0, 0])), socket.port));
        }
    }
    needed
}

/// The public sockets that one listener of a gateway stands for: at the port that is given, at the usual one, or at the first.
fn main(all: &Sockets, place: Placement, tls: bool) -> BTreeSet<Socket> {
    let is_of_kind = |rivals: &Rivals| rivals.is_tls == tls && rivals.fault.is_none();
    let of_kind = || all.iter().filter(|(_, rivals)| is_of_kind(rivals)).map(|(socket, _)| socket);
    if let Placement::Replaced(Some(port)) = place {
        return of_kind().filter(|socket| socket.port == port).cloned().collect();
    }
    let public = || of_kind().filter(|socket| socket.is_public());
    let usual = if tls { 443 } else { 80 };
    let Some(first) = public().find(|socket| socket.port == usual).or_else(|| public().next()) else {
        return BTreeSet::new();
    };
    let at_port = || public().filter(|socket| socket.port == first.port);
    // Beside it those like it: for any address as well, or with the same servers.
    let is_any = |socket: &&Socket| socket.address.is_none_or(|address| address.is_unspecified());
    let leader = at_port().find(is_any).unwrap_or(first);
    let servers = |socket: &Socket| all.get(socket).map(Rivals::servers);
    let is_alike = |socket: &&Socket| match is_any(&leader) {
        true => is_any(socket),
        false => servers(socket) == servers(leader),
    };
    at_port().filter(is_alike).cloned().collect()
}

/// That a request came to this socket, of those that have addresses of their own at its port.
fn came_to(socket: &Socket, addresses: Option<&[IpAddr]>) -> Condition {
    let port = Condition::test("server_port", "~~", format!("^{}$", socket.port));
    let rest = |own: Vec<String>| match own.is_empty() {
        true => Condition::Always,
        false => Condition::test("server_addr", "ipmatch", json!(own)).negated(),
    };
    let known = addresses.unwrap_or_default().iter();
    let address = match socket.address {
        Some(address) if address.is_unspecified() => {
            let own = known.filter(|address| !address.is_unspecified()).map(IpAddr::to_string).collect();
            Condition::all([family(socket), rest(own)])
        }
        Some(address) => Condition::test("server_addr", "ipmatch", json!([address.to_string()])),
        None => rest(known.map(IpAddr::to_string).collect()),
    };
    Condition::all([port, address])
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
