//! The life of a session of UDP: the node's answers to the client, until one of them is silent for too long.

use std::{
    cell::Cell,
    future::poll_fn,
    net::SocketAddr,
    pin::pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll, ready},
};

use tidegate_plugin_api::{Session, stream_route::StreamRoute};
use tokio::net::UdpSocket;

use super::{
    batch::{BATCH, OF_A_NODE, send_all},
    link::{Guards, Held, Link, Sessions},
};
use crate::{
    admission::Admitted,
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
    pub client: SocketAddr,
}

/// Passes the node's answers on until the session ends.
pub(super) async fn serve(
    way: Way,
    link: Rc<Link>,
    mut session: Box<Session>,
    route: Arc<StreamRoute>,
    held: Option<Held>,
    guards: (Guards, Option<Admitted>),
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
    let listed = Listed::new(&session);
    let mut ordered = pin!(listed.order.given.notified());
    let is_drained = Cell::new(false);
    let is_leaving = Cell::new(false);
    let ended = poll_fn(|context| {
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
        if listed.order.is_drain() && !is_drained.replace(true) {
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
    way.sessions.borrow_mut().remove(&way.client);
    session.log.bytes_received = link.received.get();
    session.log.upstream_bytes_sent = link.sent_up.get();
    drop(guards);
    end::end(way.worker, &mut session, Some(&route), 200);
}

/// Ready: the node takes no datagrams.
fn poll_answers(way: &Way, link: &Link, session: &mut Session, context: &mut Context<'_>) -> Poll<()> {
    BATCH.with_borrow_mut(|batch| {
        for _ in 0..TURN {
            if ready!(batch.poll_receive::<OF_A_NODE>(&link.node, context)).is_err() {
                return Poll::Ready(());
            }
            let log = &mut session.log;
            log.upstream_bytes_received +=
                batch.datagrams(batch.all()).map(|answer| answer.len() as u64).sum::<u64>();
            if log.first_byte_after.is_none() {
                log.first_byte_after = Some(session.started.elapsed());
                link.mark.answered.set(true);
            }
            log.bytes_sent += send_all(&*way.socket, Some(way.client), batch.datagrams(batch.all()));
            if !way.worker.draining.get() {
                link.timer.set(link.idle_ms.get());
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
}
