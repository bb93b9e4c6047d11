//! Sessions of UDP: the datagrams of one client address go to one node, and its answers back.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    future::poll_fn,
    hash::RandomState,
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    rc::Rc,
    task::{Context, Poll, ready},
    time::Duration,
};

use socket2::SockRef;
use tidegate_balancing::{HealthSignal, Source};
use tidegate_plugin_api::{
    Session, descriptors,
    session::{Attempt, Transport},
    stream_route::StreamRoute,
};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};
use tokio::{io::ReadBuf, net::UdpSocket, time::Instant};

use super::{end, facts::facts, guide, reach, unanswered::Mark};
use crate::sessions::{DRAINED_IDLE_MS, Listed};
use crate::{
    admission::Admitted,
    balancer::InFlight,
    open::Open,
    stall, stats,
    timers::{TICK_MS, Timer},
    worker::Worker,
};

/// No datagram is longer.
const MOST_BYTES: usize = 65_535;

/// While the worker drains, answers of nodes are waited for so long.
const GRACE_MS: u64 = 5_000;

/// Datagrams taken in one turn.
const TURN: usize = 64;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = RefCell::new(vec![0; MOST_BYTES]);
}

/// By the clients' addresses, which anybody may invent: with a random hash.
type Sessions = RefCell<HashMap<SocketAddr, Rc<Link>, RandomState>>;

/// The way of a session's datagrams.
struct Link {
    node: UdpSocket,
    timer: Timer,
    idle_ms: Cell<u64>,
    /// The client's datagrams are held back until then.
    paused: Cell<bool>,
    mark: Rc<Mark>,
    received: Cell<u64>,
    sent_up: Cell<u64>,
}

/// Receives what clients send to one socket.
pub(crate) async fn receive(worker: &'static Worker, socket: Rc<UdpSocket>, local: SocketAddr) {
    let sessions: Rc<Sessions> = Rc::default();
    loop {
        let received = poll_fn(|context| match worker.stalls.progress.is_lost() {
            true => Poll::Pending,
            false => poll_datagrams(worker, &socket, local, &sessions, context),
        });
        if let Err(error) = received.await {
            // Of an answer that a client did not take; anything else comes again.
            if error.kind() != io::ErrorKind::ConnectionRefused {
                error_log::log(Level::Error, format_args!("receiving at {local} failed: {error}"));
                tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            }
        }
        tokio::task::yield_now().await;
    }
}

fn poll_datagrams(
    worker: &'static Worker,
    socket: &Rc<UdpSocket>,
    local: SocketAddr,
    sessions: &Rc<Sessions>,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    SCRATCH.with_borrow_mut(|scratch| {
        for taken in 0..TURN {
            let mut room = ReadBuf::new(scratch);
            match socket.poll_recv_from(context, &mut room) {
                Poll::Pending if taken > 0 => return Poll::Ready(Ok(())),
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Ready(Ok(client)) => take(worker, socket, local, sessions, client, room.filled()),
            }
        }
        Poll::Ready(Ok(()))
    })
}

fn take(
    worker: &'static Worker,
    socket: &Rc<UdpSocket>,
    local: SocketAddr,
    sessions: &Rc<Sessions>,
    client: SocketAddr,
    datagram: &[u8],
) {
    if let Some(link) = sessions.borrow().get(&client) {
        return link.forward(datagram);
    }
    stats::add(&worker.stats.accepted, 1);
    let Some(admitted) = admit(worker, client) else {
        stats::add(&worker.stats.refused, 1);
        return;
    };
    let facts = facts(worker, client, local, None, None);
    let upstreams = worker.snapshot().upstreams.clone();
    let mut session = Box::new(Session::new(facts, client, Transport::Udp, worker.index, upstreams));
    session.log.bytes_received = datagram.len() as u64;
    let Some(route) = guide::find(worker, &mut session) else {
        return end::end(worker, &mut session, None, 503);
    };
    match open(worker, &mut session, &route, datagram) {
        Ok((link, first, guards)) => {
            let link = Rc::new(link);
            worker.unanswered.add(&link.mark);
            sessions.borrow_mut().insert(client, link.clone());
            let way = Way { worker, socket: socket.clone(), sessions: sessions.clone(), client };
            let task = serve(way, link, session, route, first, (guards, admitted));
            tokio::task::spawn_local(stall::watched(worker, "a session of UDP", task));
        }
        Err(status) => end::end(worker, &mut session, Some(&route), status),
    }
}

/// A place for one more session; the oldest one without an answer makes room.
fn admit(worker: &Worker, client: SocketAddr) -> Option<Option<Admitted>> {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    let Some(admission) = &worker.settings.stream.udp_sessions else { return Some(None) };
    if let Some(admitted) = admission.admit(client.ip()) {
        return Some(Some(admitted));
    }
    // Its place is free once its task has run: this datagram is lost, the client's next one is not.
    worker.unanswered.evict();
    if LIMITER.pass().is_some() {
        error_log::log(
            Level::Error,
            format_args!(
                "too many sessions of UDP (apisix.client_limits.udp_sessions, udp_sessions_per_address): a datagram of \
                 {client} is dropped"
            ),
        );
    }
    None
}

type Guards = (Open, guide::Slot, InFlight);

/// Asks the plugins, chooses a node and makes a socket for its answers. With the datagram, if it has to wait.
fn open(
    worker: &'static Worker,
    session: &mut Session,
    route: &StreamRoute,
    datagram: &[u8],
) -> Result<(Link, Option<(Vec<u8>, Duration)>, Guards), u16> {
    let slot = guide::enter(worker, route)?;
    let pause = guide::datagram_verdict(session, route, datagram)?;
    let upstream = reach::upstream(session, route)?;
    let (peer, in_flight) = reach::pick(worker, session, &upstream, &[]).ok_or(503u16)?;
    let node = peer.node().ok_or(503u16)?;
    let address = reach::address_of(node);
    let resolved = node.address.ok_or_else(|| io::Error::other("its name is not resolved"));
    let connected = resolved.and_then(|address| {
        reach::refuse_itself(address, session)?;
        connect(address)
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
    };
    session.log.bytes_received = 0;
    let first = match pause.is_zero() {
        true => {
            link.forward(datagram);
            None
        }
        false => Some((datagram.to_vec(), pause)),
    };
    Ok((link, first, (Open::new(worker), slot, in_flight)))
}

/// A socket that takes datagrams of this node alone.
fn connect(node: SocketAddr) -> io::Result<UdpSocket> {
    let any: SocketAddr = match node {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = descriptors::spared(std::net::UdpSocket::bind(any)?)?;
    socket.connect(node)?;
    socket.set_nonblocking(true)?;
    UdpSocket::from_std(socket)
}

impl Link {
    /// Without the runtime, which does not know yet that a new socket has room.
    fn send(&self, datagram: &[u8]) {
        if SockRef::from(&self.node).send(datagram).is_ok() {
            self.sent_up.set(self.sent_up.get() + datagram.len() as u64);
        }
    }

    /// To the node. What the system does not take at once is lost, as on any way of datagrams.
    fn forward(&self, datagram: &[u8]) {
        self.received.set(self.received.get() + datagram.len() as u64);
        if self.paused.get() {
            return;
        }
        self.send(datagram);
        self.timer.set(self.idle_ms.get());
    }
}

/// What a session needs of its worker.
struct Way {
    worker: &'static Worker,
    socket: Rc<UdpSocket>,
    sessions: Rc<Sessions>,
    client: SocketAddr,
}

/// Passes the node's answers on until the session ends.
async fn serve(
    way: Way,
    link: Rc<Link>,
    mut session: Box<Session>,
    route: std::sync::Arc<StreamRoute>,
    first: Option<(Vec<u8>, Duration)>,
    guards: (Guards, Option<Admitted>),
) {
    if let Some((datagram, pause)) = first {
        tokio::time::sleep(pause).await;
        link.paused.set(false);
        // Counted when it came.
        link.send(&datagram);
    }
    link.timer.set(link.idle_ms.get());
    let mut evicted = pin!(link.mark.wake.notified());
    let listed = Listed::new(&session);
    let mut ordered = pin!(listed.order.given.notified());
    let mut is_drained = false;
    let mut draining_since: Option<Instant> = None;
    let ended = poll_fn(|context| {
        link.timer.attach(context);
        if evicted.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if ordered.as_mut().poll(context).is_ready() {
            ordered.set(listed.order.given.notified());
            let _ = ordered.as_mut().poll(context);
        }
        if listed.order.is_close() {
            return Poll::Ready(());
        }
        if listed.order.is_drain() && !is_drained {
            is_drained = true;
            link.idle_ms.set(DRAINED_IDLE_MS.min(link.idle_ms.get()));
            link.timer.set(link.idle_ms.get());
        }
        if way.worker.draining.get() && draining_since.is_none() {
            draining_since = Some(Instant::now());
            link.timer.set(GRACE_MS.min(link.idle_ms.get()));
        }
        match poll_answers(&way, &link, &mut session, context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending if link.timer.expired() => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    });
    ended.await;
    way.sessions.borrow_mut().remove(&way.client);
    session.log.bytes_received = link.received.get();
    session.log.upstream_bytes_sent = link.sent_up.get();
    drop(guards);
    end::end(way.worker, &mut session, Some(&route), 200);
}

/// Ready: the node takes no datagrams.
fn poll_answers(way: &Way, link: &Link, session: &mut Session, context: &mut Context<'_>) -> Poll<()> {
    SCRATCH.with_borrow_mut(|scratch| {
        for _ in 0..TURN {
            let mut room = ReadBuf::new(scratch);
            if ready!(link.node.poll_recv(context, &mut room)).is_err() {
                return Poll::Ready(());
            }
            let answer = room.filled();
            let log = &mut session.log;
            log.upstream_bytes_received += answer.len() as u64;
            if log.first_byte_after.is_none() {
                log.first_byte_after = Some(session.started.elapsed());
                link.mark.answered.set(true);
            }
            if SockRef::from(&*way.socket).send_to(answer, &way.client.into()).is_ok() {
                log.bytes_sent += answer.len() as u64;
            }
            if !way.worker.draining.get() {
                link.timer.set(link.idle_ms.get());
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
