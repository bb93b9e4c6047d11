//! The life of a session of UDP: the node's answers to the client, until one of them is silent for too long.

use std::{
    cell::Cell,
    future::poll_fn,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tidegate_balancing::{HealthSignal, Source};
use tidegate_plugin_api::{Session, stream_route::StreamRoute};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};
use tokio::net::UdpSocket;

use super::{
    batch::{BATCH, OF_A_NODE, send_all},
    link::{Ends, Guards, Held, Link, Sessions},
    reached::send_from,
};
use crate::{
    layer4::end,
    sessions::{DRAINED_IDLE_MS, Listed},
    worker::Worker,
};

/// While the worker drains, answers of nodes are waited for so long.
const GRACE_MS: u64 = 5_000;

/// Batches taken in one turn.
const TURN: usize = 8;

/// What a session needs of its worker.
pub(super) struct Way {
    pub worker: &'static Worker,
    pub socket: Rc<UdpSocket>,
    pub sessions: Rc<Sessions>,
    pub ends: Ends,
}

/// Passes the node's answers on until the session ends.
pub(super) async fn serve(
    way: Way,
    link: Rc<Link>,
    mut session: Box<Session>,
    route: Arc<StreamRoute>,
    held: Option<Held>,
    guards: Guards,
) {
    poll_fn(|context| {
        link.timer.attach(context);
        Poll::Ready(())
    })
    .await;
    if let Some((datagram, pause)) = held {
        tokio::time::sleep(pause).await;
        link.paused.set(false);
        // Counted when it came.
        link.send(std::iter::once(&*datagram));
    }
    link.timer.set(link.idle_ms.get());
    let mut evicted = pin!(link.mark.wake.notified());
    let listed = Listed::new(way.worker, &session);
    poll_fn(|context| {
        listed.attach(context);
        Poll::Ready(())
    })
    .await;
    let is_drained = Cell::new(false);
    let is_leaving = Cell::new(false);
    let ended = poll_fn(|context| {
        if evicted.as_mut().poll(context).is_ready() {
            return Poll::Ready(());
        }
        if listed.is_closing() {
            return Poll::Ready(());
        }
        if listed.is_draining() && !is_drained.replace(true) {
            link.idle_ms.set(DRAINED_IDLE_MS.min(link.idle_ms.get()));
            link.timer.set(link.idle_ms.get());
        }
        if way.worker.draining.get() && !is_leaving.replace(true) {
            link.timer.set(GRACE_MS.min(link.idle_ms.get()));
        }
        match poll_answers(&way, &link, &mut session, context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending if link.timer.expired() => Poll::Ready(()),
            Poll::Pending => Poll::Pending,
        }
    });
    ended.await;
    way.leave(&link);
    let status = if link.is_refused.get() { report_refusal(&session) } else { 200 };
    session.log.bytes_received = link.received.get();
    session.log.upstream_bytes_sent = link.sent_up.get();
    drop((guards, link.mark.admitted.take()));
    end::end(way.worker, &mut session, Some(&route), status);
}

impl Way {
    /// Another session of the client may have begun.
    fn leave(&self, link: &Rc<Link>) {
        let mut sessions = self.sessions.borrow_mut();
        if sessions.get(&self.ends).is_some_and(|present| Rc::ptr_eq(present, link)) {
            sessions.remove(&self.ends);
        }
    }
}

/// The node has said that it has no socket there. Returns the status of the session.
fn report_refusal(session: &Session) -> u16 {
    static LIMITER: Limiter = Limiter::new(10, 1_000);
    let Some(peer) = &session.peer else { return 502 };
    if peer.upstream.balancer.has_passive_checks() {
        peer.upstream.balancer.report(peer.index, Source::Passive, HealthSignal::TcpFailure);
    }
    if LIMITER.pass().is_some() {
        let node = peer.node().map(ToString::to_string).unwrap_or_default();
        error_log::log(
            Level::Error,
            format_args!(
                "{node} of {} takes no datagrams, client: {}",
                peer.upstream.name, session.remote_addr
            ),
        );
    }
    502
}

/// Ready: the node takes no datagrams.
fn poll_answers(way: &Way, link: &Link, session: &mut Session, context: &mut Context<'_>) -> Poll<()> {
    BATCH.with_borrow_mut(|batch| {
        for _ in 0..TURN {
            if ready!(batch.poll_receive::<OF_A_NODE>(&link.node, context)).is_err() {
                link.is_refused.set(true);
                return Poll::Ready(());
            }
            let log = &mut session.log;
            log.upstream_bytes_received +=
                batch.datagrams(batch.all()).map(|answer| answer.len() as u64).sum::<u64>();
            if log.first_byte_after.is_none() {
                log.first_byte_after = Some(session.started.elapsed());
                link.mark.answered.set(true);
            }
            let answers = batch.datagrams(batch.all());
            log.bytes_sent += match way.ends {
                (client, None) => send_all(&*way.socket, Some(client), answers).bytes,
                (client, Some(reached)) => send_from(&way.socket, (reached, client), answers),
            };
            if !way.worker.draining.get() {
                link.timer.set(link.idle_ms.get());
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
