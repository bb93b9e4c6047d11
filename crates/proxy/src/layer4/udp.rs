//! Sessions of UDP: the datagrams of one client address go to one node, and its answers back.

mod batch;
mod link;
mod reached;
mod serve;

use std::{future::poll_fn, io, net::SocketAddr, rc::Rc, time::Duration};

use tidegate_plugin_api::{Session, session::Transport};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};
use tokio::net::UdpSocket;

use self::{
    batch::{BATCH, Batch, OF_CLIENTS},
    link::{Ends, Link, Sessions, open},
    serve::{Way, serve},
};
use super::{end, facts::facts, guide};
use crate::{admission::Admitted, stall, stats, timers::TICK_MS, worker::Worker};

/// A socket that clients send to.
struct Door {
    worker: &'static Worker,
    socket: Rc<UdpSocket>,
    local: SocketAddr,
    sessions: Rc<Sessions>,
}

/// Receives what clients send to one socket.
pub(crate) async fn receive(worker: &'static Worker, socket: Rc<UdpSocket>, local: SocketAddr) {
    if local.ip().is_unspecified()
        && let Err(error) = reached::ask(&socket)
    {
        error_log::log(
            Level::Error,
            format_args!("{local} does not say where datagrams are sent to: {error}"),
        );
    }
    let door = Door { worker, socket, local, sessions: Rc::default() };
    loop {
        let received = poll_fn(|context| match worker.stalls.progress.is_lost() {
            true => std::task::Poll::Pending,
            false => BATCH.with_borrow_mut(|batch| {
                let received = batch.poll_receive::<OF_CLIENTS>(&door.socket, context);
                received.map_ok(|()| door.take(batch))
            }),
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

impl Door {
    fn take(&self, batch: &Batch) {
        for (ends, mut run) in batch.runs() {
            let mut link = self.sessions.borrow().get(&ends).cloned();
            while !run.is_empty() {
                let Some(known) = &link else {
                    let first = batch.datagrams(run.start..run.start + 1).next().unwrap_or_default();
                    link = self.begin(ends, first);
                    run.start += 1;
                    continue;
                };
                let Some(passed) = known.forward(batch.datagrams(run.clone())) else { break };
                // The rest is for another node.
                run.start += passed;
                link = None;
            }
        }
    }

    /// Begins a session with its first datagram.
    fn begin(&self, ends: Ends, datagram: &[u8]) -> Option<Rc<Link>> {
        let worker = self.worker;
        let (client, reached) = ends;
        let local = reached.map_or(self.local, |reached| (reached, self.local.port()).into());
        stats::add(&worker.stats.accepted, 1);
        let Some(admitted) = admit(worker, client) else {
            stats::add(&worker.stats.refused, 1);
            return None;
        };
        let facts = facts(worker, client, local, None, None);
        let upstreams = worker.snapshot().upstreams.clone();
        let mut session = Box::new(Session::new(facts, client, Transport::Udp, worker.index, upstreams));
        session.log.bytes_received = datagram.len() as u64;
        let Some(route) = guide::find(worker, &mut session) else {
            end::end(worker, &mut session, None, 503);
            return None;
        };
        if route.protocol.is_some() {
            error_log::log(
                Level::Error,
                format_args!("stream_routes/{} has a protocol for TCP, client: {client}", route.owner.id),
            );
            end::end(worker, &mut session, Some(&route), 503);
            return None;
        }
        match open(worker, &mut session, &route, datagram) {
            Ok((link, held, guards)) => {
                let link = Rc::new(link);
                link.mark.admitted.set(admitted);
                worker.unanswered.add(&link.mark);
                self.sessions.borrow_mut().insert(ends, link.clone());
                let (socket, sessions) = (self.socket.clone(), self.sessions.clone());
                let way = Way { worker, socket, sessions, ends };
                let task = serve(way, link.clone(), session, route, held, guards);
                tokio::task::spawn_local(stall::watched(worker, "a session of UDP", task));
                Some(link)
            }
            Err(status) => {
                end::end(worker, &mut session, Some(&route), status);
                None
            }
        }
    }
}

/// A place for one more session; the oldest one without an answer makes room.
fn admit(worker: &Worker, client: SocketAddr) -> Option<Option<Admitted>> {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    let Some(admission) = &worker.settings.stream.udp_sessions else { return Some(None) };
    if let Some(admitted) = admission.admit(client.ip()) {
        return Some(Some(admitted));
    }
    if worker.unanswered.evict()
        && let Some(admitted) = admission.admit(client.ip())
    {
        return Some(Some(admitted));
    }
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
