//! Sessions of stream routes: connections and datagrams that are passed on unchanged.
//!
//! ```text
//! begin (PROXY header, TLS, server name) -> guide (route, plugins) -> reach (a node) -> relay -> end (log)
//! ```
//!
//! `relay` copies, or has `splice` move bytes through one of `pipes`; where the route names a protocol, `calls` shows it each byte. Datagrams
//! are in `udp`: `batch` receives and sends, `link` is a session's socket to its node, `serve` takes the node's datagrams.
//!
//! Nodes are chosen, checked and connected to as for requests: `balancer.rs`, `dial.rs`, crate `balancing`.

mod begin;
mod calls;
mod end;
mod facts;
mod guide;
mod hello;
pub(crate) mod pipes;
mod reach;
mod relay;
mod splice;
pub(crate) mod udp;
pub(crate) mod unanswered;

use std::{future::poll_fn, net::SocketAddr, pin::Pin, sync::Arc, task::Poll};

use tidegate_plugin_api::{Session, stream_route::StreamRoute};
use tokio::net::TcpStream;

use self::{begin::Begun, guide::Slot, reach::Reached, relay::Sides};
use crate::{
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
    tokio::task::spawn_local(stall::watched(worker, "a session", run(worker, beginning)));
}

/// A session with its node.
struct Established {
    session: Box<Session>,
    route: Arc<StreamRoute>,
    client: Stream,
    /// Sent to the node first.
    early: Vec<u8>,
    node: Reached,
    timer: Timer,
    _open: Open,
    _slot: Slot,
}

async fn run(worker: &'static Worker, beginning: Pin<Box<impl Future<Output = Option<Box<Established>>>>>) {
    let Some(mut established) = beginning.await else { return };
    let Established { session, route, client, early, node, timer, .. } = &mut *established;
    let early = std::mem::take(early);
    let sides = Sides { client, early, idle_ms: node.idle_ms, node: &mut node.stream };
    relay::relay(worker, session, route.protocol.as_ref(), sides, timer).await;
    end::end(worker, session, Some(route), 200);
}

async fn establish(
    worker: &'static Worker,
    stream: TcpStream,
    arrival: begin::Arrival,
    how: StreamListen,
    open: Open,
) -> Option<Box<Established>> {
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
        return None;
    };
    let reached = async {
        let slot = guide::enter(worker, &route)?;
        guide::preread(worker, &mut client, &mut session, &route, &mut early, &timer).await?;
        let node = reach::connect_next(worker, &mut session, &route, &timer, how.announce).await?;
        Ok((slot, node))
    };
    match reached.await {
        Ok((slot, node)) => Some(Box::new(Established {
            session,
            route,
            client,
            early,
            node,
            timer,
            _open: open,
            _slot: slot,
        })),
        Err(status) => {
            session.log.bytes_received = early.len() as u64;
            end::end(worker, &mut session, Some(&route), status);
            None
        }
    }
}
