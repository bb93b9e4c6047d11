//! Sessions of stream routes: connections and datagrams that are passed on unchanged.
//!
//! ```text
//! begin (PROXY header, TLS, server name) -> guide (route, plugins) -> reach (a node) -> relay -> end (log)
//! ```
//!
//! `established` is what a session holds with its node, and `relay` its life. `ways` copies, or has `splice` move bytes through one of `pipes`;
//! where the route names a protocol, `calls` shows it each byte. `silence` says when a session is parked and when it ends; `idle` parks it, and `parking`
//! has its sockets meanwhile. Datagrams are in `udp`: `batch` receives and sends, `link` is a session's socket to its node, `serve` takes the
//! node's datagrams.
//!
//! Nodes are chosen, checked and connected to as for requests: `balancer.rs`, `dial.rs`, crate `balancing`. `chain` ends circles of routes.

mod begin;
mod calls;
mod chain;
mod end;
mod established;
mod facts;
mod guide;
mod hello;
mod idle;
pub(crate) mod parking;
pub(crate) mod pipes;
mod reach;
mod relay;
mod silence;
mod splice;
pub(crate) mod udp;
pub(crate) mod unanswered;
mod ways;

use std::{
    cell::RefCell,
    future::poll_fn,
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::net::TcpStream;

use self::{
    begin::Begun,
    established::{Ends, Established},
    relay::Relay,
    silence::Silence,
};
use crate::{
    linger,
    open::Open,
    settings::{Listen, StreamListen},
    stall,
    stream::Stream,
    timers::Timer,
    worker::Worker,
};

/// Takes a connection of a client.
pub(crate) fn spawn(
    worker: &'static Worker,
    stream: TcpStream,
    peer: SocketAddr,
    listen: &Listen,
    how: StreamListen,
) {
    let arrival = begin::Arrival {
        peer,
        local: listen.local_address(&stream),
        tls: listen.tls,
        proxy_protocol: listen.proxy_protocol,
    };
    // Boxed: an established session does not carry the size of its beginning.
    let beginning = Box::pin(establish(worker, stream, arrival, how, Open::new(worker)));
    tokio::task::spawn_local(stall::watched(worker, "a session", Running::Beginning(worker, beginning)));
}

/// A session with its node, and what is sent to the node first; `None`: it has ended.
type Beginning = Option<(Box<Established>, Vec<u8>)>;

/// A session from its first byte to its last.
enum Running<F> {
    Beginning(&'static Worker, Pin<Box<F>>),
    Relaying(Relay),
}

impl<F: Future<Output = Beginning>> Future for Running<F> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        if let Running::Beginning(worker, beginning) = &mut *self {
            let Some((established, early)) = ready!(beginning.as_mut().poll(context)) else {
                return Poll::Ready(());
            };
            *self = Running::Relaying(Relay::new(worker, established, early));
        }
        match &mut *self {
            Running::Relaying(relay) => Pin::new(relay).poll(context),
            Running::Beginning(..) => Poll::Pending,
        }
    }
}

async fn establish(
    worker: &'static Worker,
    stream: TcpStream,
    arrival: begin::Arrival,
    how: StreamListen,
    open: Open,
) -> Beginning {
    let timer = Timer::new(&worker.deadlines);
    poll_fn(|context| {
        timer.attach(context);
        Poll::Ready(())
    })
    .await;
    let begun = begin::begin(worker, stream, arrival, open, &timer).await?;
    let Begun { mut client, mut session, mut early, open } = begun;
    let Some(route) = guide::find(worker, &mut session) else {
        end::end(worker, &mut session, None, 503);
        leave(worker, client, &timer).await;
        return None;
    };
    let reached = async {
        let slot = guide::enter(worker, &route)?;
        guide::preread(worker, &mut client, &mut session, &route, &mut early, &timer).await?;
        let node = reach::connect_next(worker, &mut session, &route, &timer, how.announce).await?;
        Ok((slot, node))
    };
    match reached.await {
        Ok((slot, node)) => {
            let established = Established {
                session,
                route,
                ends: Ends::Open(client, node.stream),
                silence: Silence::new(node.idle_ms),
                timer,
                _in_flight: node.in_flight,
                _open: open,
                _slot: slot,
            };
            Some((Box::new(established), early))
        }
        Err(status) => {
            session.log.bytes_received = early.len() as u64;
            end::end(worker, &mut session, Some(&route), status);
            leave(worker, client, &timer).await;
            None
        }
    }
}

/// A client whose session is refused sees its end, whatever it has sent: the kernel would answer bytes that were not read with RST.
async fn leave(worker: &Worker, client: Stream, timer: &Timer) {
    let client = RefCell::new(client);
    linger::linger(worker, timer, linger::SHORT_MS, || client.borrow_mut()).await;
}
