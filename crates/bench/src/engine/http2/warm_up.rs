//! The warm-up of connections of HTTP/2, see [`super::super::warm_up`].

use std::{
    rc::Rc,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::Duration,
};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::time::{Instant, sleep, timeout};

use super::{exchange::Exchange, shared::Common};
use crate::engine::{
    portion::{fresh_tally, source},
    start::Start,
    tally::SharedSlots,
};

const STEP: Duration = Duration::from_millis(1);

/// Waits until each connection has its answer, or for as long as a request may take; then for the other threads.
pub(super) async fn run(common: &Common, stop: &AtomicBool, start: &Start, slots: SharedSlots) {
    let limit = Instant::now() + common.borrow().plan.timeout;
    let is_warm = || common.borrow().warm >= common.borrow().connections.len();
    while !is_warm() && Instant::now() < limit && !stop.load(Relaxed) {
        sleep(STEP).await;
    }
    start.warm.wait();
    start.ready.wait();
    let mut shared = common.borrow_mut();
    if let Some(clock) = start.clock.get() {
        shared.clock = *clock;
    }
    let fresh = fresh_tally(&shared.plan, slots);
    let warm = std::mem::replace(&mut shared.tally, fresh);
    (shared.tally.connect, shared.tally.handshake) = (warm.connect, warm.handshake);
    (shared.next, shared.source) = (shared.thread, source(shared.thread));
    shared.is_warming = false;
    shared.started.notify_waiters();
    let until = shared.clock.until_start();
    drop(shared);
    std::thread::sleep(until);
}

/// Sends one request that is not counted; then waits for the clock.
pub(super) async fn request<E: Exchange>(connection: usize, sender: SendRequest<Bytes>, common: &Common) {
    let rendered = {
        let mut shared = common.borrow_mut();
        shared.source.connection = connection;
        let shared = &mut *shared;
        shared.requests.first().map(|request| request.render(&mut shared.source))
    };
    if let Some((head, body)) = rendered {
        let limit = common.borrow().plan.timeout;
        // What becomes of it says the run itself.
        drop(timeout(limit, E::exchange(sender, head, body, common)).await);
    }
    let started = {
        let mut shared = common.borrow_mut();
        shared.warm += 1;
        Rc::clone(&shared.started)
    };
    while common.borrow().is_warming {
        started.notified().await;
    }
}
