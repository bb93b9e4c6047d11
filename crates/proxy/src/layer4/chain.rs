//! Sessions whose node is a stream port of this gateway. A chain of some may be meant, such as TLS that is passed through by its name to a
//! port that ends it. Routes that lead in a circle would take descriptors until none are left, for one connection.

use std::{
    collections::BTreeMap,
    io,
    net::{SocketAddr, UdpSocket},
};

use parking_lot::Mutex;
use tidegate_plugin_api::{Session, session::Transport};
use tokio::net::TcpSocket;

use crate::worker::Worker;

/// One after the other.
const MOST_LINKS: u8 = 8;

type Ends = BTreeMap<SocketAddr, u8>;

/// By our end of each connection to a port of this gateway, how many there are from the first client to it.
static TCP: Mutex<Ends> = Mutex::new(Ends::new());
static UDP: Mutex<Ends> = Mutex::new(Ends::new());

fn ends(transport: Transport) -> &'static Mutex<Ends> {
    match transport {
        Transport::Tcp => &TCP,
        Transport::Udp => &UDP,
    }
}

/// A connection to a port of this gateway; kept with its session.
struct Link(Transport, SocketAddr);

impl Drop for Link {
    fn drop(&mut self) {
        ends(self.0).lock().remove(&self.1);
    }
}

/// A socket for a node at a stream port of this gateway, whose own address is known before the port sees it. `None`: the node is elsewhere.
pub(super) fn socket(
    worker: &Worker,
    session: &mut Session,
    node: SocketAddr,
) -> io::Result<Option<TcpSocket>> {
    let Some(number) = next(worker, session, node)? else { return Ok(None) };
    let socket = if node.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Another machine may have the same port.
    if socket.bind((node.ip(), 0).into()).is_err() {
        return Ok(None);
    }
    add(session, socket.local_addr()?, number);
    Ok(Some(socket))
}

/// As [`socket`], for one that is connected and has sent nothing.
pub(super) fn add_udp(
    worker: &Worker,
    session: &mut Session,
    node: SocketAddr,
    socket: &UdpSocket,
) -> io::Result<()> {
    if let Some(number) = next(worker, session, node)? {
        add(session, socket.local_addr()?, number);
    }
    Ok(())
}

/// The number of a connection to this node, if it is at a stream port of this gateway.
fn next(worker: &Worker, session: &Session, node: SocketAddr) -> io::Result<Option<u8>> {
    let is_udp = session.transport == Transport::Udp;
    let mut ports = worker.settings.listen.iter().filter(|listen| listen.is_udp() == is_udp);
    if !ports.any(|listen| listen.stream.is_some() && listen.address.port() == node.port()) {
        return Ok(None);
    }
    let before = ends(session.transport).lock().get(&canonical(session.facts.peer)).copied().unwrap_or(0);
    if before >= MOST_LINKS {
        return Err(io::Error::other(
            "its client has come through 8 stream ports of this gateway, whose routes lead in a circle",
        ));
    }
    Ok(Some(before + 1))
}

fn add(session: &mut Session, own: SocketAddr, number: u8) {
    let own = canonical(own);
    ends(session.transport).lock().insert(own, number);
    session.extensions.insert(Link(session.transport, own));
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}
