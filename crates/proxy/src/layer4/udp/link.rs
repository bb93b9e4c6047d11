//! What a session of UDP has of its node, and how it begins.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    hash::RandomState,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    rc::Rc,
    time::Duration,
};

use tidegate_balancing::{HealthSignal, Source};
use tidegate_plugin_api::{
    Session, UpstreamHandle, descriptors, session::Attempt, stream_route::StreamRoute,
};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};
use tokio::net::UdpSocket;

use super::batch::{Sent, send_all};
use crate::{
    balancer::InFlight,
    layer4::{chain, guide, reach, unanswered::Mark},
    open::Open,
    timers::Timer,
    worker::Worker,
};

/// The way of a session's datagrams.
pub(super) struct Link {
    pub node: UdpSocket,
    pub timer: Timer,
    pub idle_ms: Cell<u64>,
    /// The client's datagrams are held back until then.
    pub paused: Cell<bool>,
    pub mark: Rc<Mark>,
    pub received: Cell<u64>,
    pub sent_up: Cell<u64>,
    /// The node takes no datagrams.
    pub is_refused: Cell<bool>,
}

/// A client, and the address that it sends to where the socket listens on all of them.
pub(super) type Ends = (SocketAddr, Option<IpAddr>);

/// By the clients' addresses, which anybody may invent: with a random hash.
pub(super) type Sessions = RefCell<HashMap<Ends, Rc<Link>, RandomState>>;

/// Counts the session where it is limited.
pub(super) type Guards = (Open, guide::Slot, InFlight);

/// A datagram that has to wait.
pub(super) type Held = (Vec<u8>, Duration);

/// Asks the plugins, chooses a node and makes a socket for its answers. With the datagram, if it has to wait.
pub(super) fn open(
    worker: &'static Worker,
    session: &mut Session,
    route: &StreamRoute,
    datagram: &[u8],
) -> Result<(Link, Option<Held>, Guards), u16> {
    let slot = guide::enter(worker, route)?;
    let pause = guide::datagram_verdict(session, route, datagram)?;
    let upstream = reach::upstream(session, route)?;
    if upstream.stream().tls.is_some() {
        refuse_tls(&upstream);
        return Err(503);
    }
    let (peer, in_flight) = reach::pick(worker, session, &upstream, &[]).ok_or(503u16)?;
    let node = peer.node().ok_or(503u16)?;
    let address = reach::address_of(node);
    let resolved = node.address.ok_or_else(|| io::Error::other("its name is not resolved"));
    let connected = resolved.and_then(|address| {
        reach::refuse_itself(address, session)?;
        connect(worker, session, address)
    });
    let connected_after = connected.is_ok().then_some(Duration::ZERO);
    session.log.attempts.push(Attempt { address, connected_after });
    let socket = connected.map_err(|error| {
        if upstream.balancer.has_passive_checks() {
            upstream.balancer.report(peer.index, Source::Passive, HealthSignal::TcpFailure);
        }
        error_log::log(Level::Error, format_args!("no socket for {node} of {}: {error}", upstream.name));
        502u16
    })?;
    let link = Link {
        node: socket,
        timer: Timer::new(&worker.deadlines),
        idle_ms: Cell::new(reach::idle_ms(worker, &upstream)),
        paused: Cell::new(!pause.is_zero()),
        mark: Rc::default(),
        received: Cell::new(0),
        sent_up: Cell::new(0),
        is_refused: Cell::new(false),
    };
    session.log.bytes_received = 0;
    link.forward(std::iter::once(datagram));
    let held = (!pause.is_zero()).then(|| (datagram.to_vec(), pause));
    Ok((link, held, (Open::new(worker), slot, in_flight)))
}

/// In the clear they would lack what the scheme asks for.
fn refuse_tls(upstream: &UpstreamHandle) {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    if LIMITER.pass().is_some() {
        error_log::log(
            Level::Error,
            format_args!(
                "upstream {} has scheme tls, which is for TCP: sessions of UDP are closed; write scheme udp",
                upstream.name
            ),
        );
    }
}

/// A socket that takes datagrams of this node alone.
fn connect(worker: &Worker, session: &mut Session, node: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match node {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = descriptors::spared(std::net::UdpSocket::bind(any)?)?;
    socket.connect(node)?;
    chain::add_udp(worker, session, node, &socket)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

impl Link {
    /// To the node, in their order. Where the node has refused earlier ones: how many of these are not for the next node.
    pub(super) fn forward<'a>(
        &self,
        datagrams: impl ExactSizeIterator<Item = &'a [u8]> + Clone,
    ) -> Option<usize> {
        let refused = if self.paused.get() { None } else { self.send(datagrams.clone()) };
        let taken = datagrams.take(refused.unwrap_or(usize::MAX));
        let bytes: u64 = taken.map(|datagram| datagram.len() as u64).sum();
        self.received.set(self.received.get() + bytes);
        self.timer.set(self.idle_ms.get());
        refused
    }

    pub(super) fn send<'a>(&self, datagrams: impl ExactSizeIterator<Item = &'a [u8]>) -> Option<usize> {
        let Sent { bytes, refused } = send_all(&self.node, None, datagrams);
        self.sent_up.set(self.sent_up.get() + bytes);
        if refused.is_some() {
            self.is_refused.set(true);
            self.mark.wake.notify_one();
        }
        refused
    }
}
