//! The node of a session: chosen, tried and left again as for requests.

use std::{io, net::SocketAddr, sync::Arc, time::Instant};

use smallvec::SmallVec;
use tidegate_balancing::{
    HealthSignal, RetryPolicy, Source,
    retry::{Progress, RetryDecision},
};
use tidegate_plugin_api::{
    Session, UpstreamHandle,
    connection::ProxyHeader,
    route::RouteUpstream,
    session::Attempt,
    stream_route::StreamRoute,
    upstream::{Node, Peer, ProxyProtocol, Timeouts},
};
use tidegate_telemetry::error_log::{self, Level};
use tokio::net::TcpSocket;

use super::chain;
use crate::{
    balancer::InFlight,
    dial::Dial,
    exchange::{Failure, FailureKind, report_failure},
    stream::Stream,
    timers::Timer,
    worker::Worker,
};

/// A node that took the connection.
pub(super) struct Reached {
    pub stream: Stream,
    pub idle_ms: u64,
    pub in_flight: InFlight,
}

/// A plugin's choice, else the route's.
pub(super) fn upstream(session: &Session, route: &StreamRoute) -> Result<Arc<UpstreamHandle>, u16> {
    match (&session.upstream, &route.upstream) {
        (Some(chosen), _) | (None, RouteUpstream::Some(chosen)) => Ok(chosen.clone()),
        (None, RouteUpstream::None | RouteUpstream::Missing) => {
            error_log::log(Level::Error, format_args!("stream_routes/{} has no upstream", route.owner.id));
            Err(503)
        }
    }
}

/// Without traffic a session lasts so long.
pub(super) fn idle_ms(worker: &Worker, upstream: &UpstreamHandle) -> u64 {
    let set = upstream.stream().timeouts.map(|Timeouts { send_ms, read_ms, .. }| send_ms.max(read_ms));
    set.unwrap_or(worker.settings.stream.idle_timeout_ms)
}

/// The node for the next try, counted as in use.
pub(super) fn pick(
    worker: &'static Worker,
    session: &mut Session,
    upstream: &Arc<UpstreamHandle>,
    tried: &[u16],
) -> Option<(Peer, InFlight)> {
    let key = session.hash_key(upstream);
    let now_ms = worker.deadlines.now_ms();
    let picked = upstream.balancer.pick(worker.index, key.as_deref(), tried, now_ms);
    let Some(index) = picked else {
        let reason = if tried.is_empty() { "no valid upstream node" } else { "every node was tried" };
        error_log::log(Level::Error, format_args!("{reason}, upstream: {}", upstream.name));
        return None;
    };
    let peer = Peer { upstream: upstream.clone(), index };
    session.peer = Some(peer.clone());
    Some((peer.clone(), InFlight::new(peer, worker)))
}

/// Tries nodes until one takes the connection; else the status of the session.
pub(super) async fn connect_next(
    worker: &'static Worker,
    session: &mut Session,
    route: &StreamRoute,
    timer: &Timer,
    announces: bool,
) -> Result<Reached, u16> {
    let upstream = upstream(session, route)?;
    let connect_ms = upstream.stream().timeouts.unwrap_or_default().connect_ms;
    let policy = RetryPolicy::new(upstream.nodes.len(), upstream.retries, upstream.retry_timeout_ms);
    let started = Instant::now();
    let mut tried: SmallVec<[u16; 4]> = SmallVec::new();
    loop {
        let Some((peer, in_flight)) = pick(worker, session, &upstream, &tried) else {
            return Err(if tried.is_empty() { 503 } else { 502 });
        };
        let began = Instant::now();
        let tls = upstream.stream().tls.as_ref();
        let connected = match peer.node().and_then(|node| Some((node, node.address?))) {
            None => Err(FailureKind::Unresolved),
            Some((node, address)) => match own_socket(worker, session, address) {
                Err(error) => Err(FailureKind::Connect(error)),
                Ok(socket) => {
                    let version = upstream.proxy_protocol.or(announces.then_some(ProxyProtocol::V1));
                    let dial = Dial {
                        worker,
                        timer,
                        connect_ms,
                        send_ms: idle_ms(worker, &upstream),
                        announce: version.map(|version| (version, ends(session))),
                        tls,
                        sni: session.handshake_name().unwrap_or(&node.host).as_bytes(),
                        socket,
                    };
                    dial.connect(address).await
                }
            },
        };
        let connected_after = connected.is_ok().then(|| began.elapsed());
        let address = peer.node().map(address_of).unwrap_or_default();
        session.log.attempts.push(Attempt { address, connected_after });
        match connected {
            Ok(stream) => {
                if upstream.balancer.has_passive_checks() {
                    upstream.balancer.report(peer.index, Source::Passive, HealthSignal::Success);
                }
                let idle_ms = idle_ms(worker, &upstream);
                return Ok(Reached { stream, idle_ms, in_flight });
            }
            Err(kind) => {
                drop(in_flight);
                let failure = Failure { kind, request_sent: false, body_consumed: false };
                report_failure(&upstream, peer.index, &failure);
                log_failure(session, &peer, &failure);
                tried.push(peer.index);
                let elapsed_ms = started.elapsed().as_millis() as u64;
                let decision = policy.after_failure(tried.len(), b"", Progress::NothingSent, elapsed_ms);
                if decision != RetryDecision::Retry {
                    return Err(502);
                }
            }
        }
    }
}

/// A node that is the address which the client reached would be the gateway again, and again.
pub(super) fn refuse_itself(node: SocketAddr, session: &Session) -> io::Result<()> {
    match node == session.facts.local {
        true => Err(io::Error::other("the node is the gateway itself, at this port")),
        false => Ok(()),
    }
}

/// What a node at a port of this gateway is connected to with.
fn own_socket(worker: &Worker, session: &mut Session, node: SocketAddr) -> io::Result<Option<TcpSocket>> {
    refuse_itself(node, session)?;
    chain::socket(worker, session, node)
}

/// As `$upstream_addr` has it.
pub(super) fn address_of(node: &Node) -> Box<str> {
    let address = node.address.map(|address| address.to_string());
    address.unwrap_or_else(|| format!("{}:{}", node.host, node.port)).into()
}

/// Both ends of the client's connection.
fn ends(session: &Session) -> ProxyHeader {
    let client = (session.remote_addr, session.remote_port).into();
    let facts = &session.facts;
    match facts.proxy_header() {
        Some(header) if header.client == client => *header,
        _ => ProxyHeader { client, server: facts.local },
    }
}

fn log_failure(session: &Session, peer: &Peer, failure: &Failure) {
    error_log::log(
        Level::Error,
        format_args!(
            "{}, client: {}, server: {}, upstream: {} {}",
            failure.reason(),
            session.remote_addr,
            session.facts.local,
            peer.upstream.name,
            peer.node().map_or_else(|| "?".to_owned(), Node::to_string),
        ),
    );
}
