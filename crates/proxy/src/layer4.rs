//! Sessions of stream routes: connections and datagrams that are passed on without a look at what they carry.
//!
//! ```text
//! begin (PROXY header, TLS, server name) -> guide (route, plugins) -> reach (a node) -> relay -> end (log)
//! ```
//!
//! Nodes are chosen, checked and connected to as for requests: `balancer.rs`, `dial.rs`, crate `balancing`.

mod begin;
mod end;
mod facts;
mod guide;
mod hello;
mod reach;
pub(crate) mod udp;
pub(crate) mod unanswered;

use std::{cell::RefCell, future::poll_fn, net::SocketAddr, pin::pin, sync::Arc, task::Poll};

use tidegate_plugin_api::{Session, stream_route::StreamRoute};
use tokio::net::TcpStream;

use self::{begin::Begun, guide::Slot, reach::Reached};
use crate::{
    open::Open,
    relay::{Pipe, poll_pipe},
    sessions::{DRAINED_IDLE_MS, Listed},
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
    let task = run(worker, stream, arrival, how, Open::new(worker));
    tokio::task::spawn_local(stall::watched(worker, "a session", task));
}

/// A session with its node.
struct Established {
    session: Box<Session>,
    route: Arc<StreamRoute>,
    client: Stream,
    /// Sent to the node first.
    early: Vec<u8>,
    node: Reached,
    _open: Open,
    _slot: Slot,
}

async fn run(
    worker: &'static Worker,
    stream: TcpStream,
    arrival: begin::Arrival,
    how: StreamListen,
    open: Open,
) {
    let timer = Timer::new(&worker.deadlines);
    poll_fn(|context| {
        timer.attach(context);
        Poll::Ready(())
    })
    .await;
    // Boxed: an established session does not carry the size of its beginning.
    let Some(mut established) = Box::pin(establish(worker, stream, arrival, how, open, &timer)).await else {
        return;
    };
    relay(&mut established, &timer).await;
    let Established { mut session, route, .. } = established;
    end::end(worker, &mut session, Some(&route), 200);
}

async fn establish(
    worker: &'static Worker,
    stream: TcpStream,
    arrival: begin::Arrival,
    how: StreamListen,
    open: Open,
    timer: &Timer,
) -> Option<Established> {
    let begun = begin::begin(worker, stream, arrival, open, timer).await?;
    let Begun { mut client, mut session, mut early, open } = begun;
    let Some(route) = guide::find(worker, &mut session) else {
        end::end(worker, &mut session, None, 503);
        return None;
    };
    let reached = async {
        let slot = guide::enter(worker, &route)?;
        guide::preread(worker, &mut client, &mut session, &route, &mut early, timer).await?;
        let node = reach::connect_next(worker, &mut session, &route, timer, how.announce).await?;
        Ok((slot, node))
    };
    match reached.await {
        Ok((slot, node)) => {
            Some(Established { session, route, client, early, node, _open: open, _slot: slot })
        }
        Err(status) => {
            end::end(worker, &mut session, Some(&route), status);
            None
        }
    }
}

/// Both ways, until both have ended or nothing moved for the upstream's time.
async fn relay(established: &mut Established, timer: &Timer) {
    let Established { session, client, early, node, .. } = established;
    let listed = Listed::new(session);
    let mut idle_ms = node.idle_ms;
    let mut ordered = pin!(listed.order.given.notified());
    let (client, upstream) = (RefCell::new(client), RefCell::new(&mut node.stream));
    let (mut up, mut down) = (Pipe::of_session(&std::mem::take(early)), Pipe::of_session(&[]));
    timer.set(idle_ms);
    let log = &mut session.log;
    let started = session.started;
    poll_fn(|context| {
        if ordered.as_mut().poll(context).is_ready() {
            ordered.set(listed.order.given.notified());
            // Polled, so that it wakes this task.
            let _ = ordered.as_mut().poll(context);
        }
        if listed.order.is_close() {
            return Poll::Ready(());
        }
        if listed.order.is_drain() && idle_ms > DRAINED_IDLE_MS {
            idle_ms = DRAINED_IDLE_MS;
            timer.set(idle_ms);
        }
        let before = up.moved + down.moved;
        let first = poll_pipe(
            context,
            &mut up,
            |context, room| client.borrow_mut().poll_read(context, room),
            |context, data| match data {
                Some(data) => upstream.borrow_mut().poll_write(context, data),
                None => upstream.borrow_mut().poll_shutdown(context).map_ok(|()| 0),
            },
        );
        let second = poll_pipe(
            context,
            &mut down,
            |context, room| upstream.borrow_mut().poll_read(context, room),
            |context, data| match data {
                Some(data) => client.borrow_mut().poll_write(context, data),
                None => client.borrow_mut().poll_shutdown(context).map_ok(|()| 0),
            },
        );
        if up.moved + down.moved != before {
            timer.set(idle_ms);
            if log.first_byte_after.is_none() && down.moved > 0 {
                log.first_byte_after = Some(started.elapsed());
            }
        }
        // TLS may hold back records that a socket did not take; they must not wait for the next ones.
        let flushed = [upstream.borrow_mut().poll_flush(context), client.borrow_mut().poll_flush(context)];
        if flushed.iter().any(|flushed| matches!(flushed, Poll::Ready(Err(_)))) {
            return Poll::Ready(());
        }
        match (first, second) {
            (Poll::Ready(Err(_)), _) | (_, Poll::Ready(Err(_))) => Poll::Ready(()),
            (Poll::Ready(Ok(())), Poll::Ready(Ok(()))) => Poll::Ready(()),
            _ if timer.expired() => Poll::Ready(()),
            _ => Poll::Pending,
        }
    })
    .await;
    (log.bytes_received, log.upstream_bytes_sent) = (up.moved, up.moved);
    (log.bytes_sent, log.upstream_bytes_received) = (down.moved, down.moved);
}
