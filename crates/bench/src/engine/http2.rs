//! HTTP/2 (RFC 9113): a thread with its own runtime, streams as tasks, framing and HPACK by the `h2` crate.
//!
//! Slower than the HTTP/1 engine by what an executor and a map of headers cost. Bytes counted are those of bodies.

mod exchange;
mod grpc;
mod lost;
mod request;
mod shared;
mod warm_up;

use std::{cell::RefCell, rc::Rc, sync::Arc, time::Duration};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::LocalSet,
    time::{sleep, timeout},
};

pub(crate) use self::request::{CONNECTION_FIELDS, Http2Request};
use self::{
    exchange::{Exchange, Http},
    grpc::Call,
    lost::Lost,
    shared::{Common, Shared},
};
use super::{
    dial::{Raw, Way},
    failure::{Broken, Failure},
    harvest::ThreadResult,
    local::{self, wait_until},
    portion::Portion,
    start::Start,
};
use crate::Problem;

/// Large enough that flow control never holds an answer up.
const WINDOW_BYTES: u32 = 8 * 1024 * 1024;
const FIRST_RETRY: Duration = Duration::from_millis(10);
const LAST_RETRY: Duration = Duration::from_secs(1);

pub(super) struct Worker {
    portion: Portion,
    requests: Vec<Http2Request>,
    /// Set where connections are warmed up first.
    start: Option<Arc<Start>>,
}

impl Worker {
    pub(super) fn new(portion: Portion, start: Option<Arc<Start>>) -> Result<Worker, Problem> {
        let plan = &portion.plan;
        let requests: Result<Vec<_>, Problem> =
            plan.requests.iter().map(|spec| Http2Request::new(spec, &plan.origin)).collect();
        Ok(Worker { requests: requests?, portion, start })
    }

    pub(super) fn run(self) -> Result<ThreadResult, Problem> {
        let Worker { portion, requests, start } = self;
        let (plan, slots) = (Arc::clone(&portion.plan), Arc::clone(&portion.slots));
        let (stop, ending) = (Arc::clone(&portion.stop), Arc::clone(&portion.ending));
        let common = Rc::new(RefCell::new(Shared::of(portion, requests)));
        common.borrow_mut().is_warming = start.is_some();
        let clock = || common.borrow().clock;
        let tick = || {
            let now = clock().now();
            common.borrow_mut().tally.rotate(now);
        };
        let took = local::run(
            &plan,
            clock,
            &stop,
            &ending,
            tick,
            |local| {
                if plan.options.grpc.is_some() {
                    start_connections::<Call>(local, &common)
                } else {
                    start_connections::<Http>(local, &common)
                }
            },
            async {
                if let Some(start) = start {
                    warm_up::run(&common, &stop, &start, slots).await;
                }
            },
        )?;
        let shared = Rc::try_unwrap(common).map_err(|_| Problem::failed("tasks outlive their thread"))?;
        Ok(shared.into_inner().harvest(&took))
    }
}

fn start_connections<E: Exchange>(local: &LocalSet, common: &Common) -> Vec<tokio::task::JoinHandle<()>> {
    let (count, depth) = {
        let shared = common.borrow();
        (shared.connections.len(), shared.plan.pipeline)
    };
    (0..count).map(|index| local.spawn_local(connection::<E>(index, depth, Rc::clone(common)))).collect()
}

/// Keeps one connection open and its streams busy until nothing is left to send.
async fn connection<E: Exchange>(index: usize, depth: usize, common: Common) {
    let mut wait = FIRST_RETRY;
    while common.borrow().left > 0 {
        match open(index, &common).await {
            Ok(sender) => {
                wait = FIRST_RETRY;
                set_open(&common, index);
                if common.borrow().is_warming {
                    warm_up::request::<E>(index, sender.clone(), &common).await;
                }
                let streams: Vec<_> = (0..depth)
                    .map(|place| {
                        let place = index * depth + place;
                        tokio::task::spawn_local(stream::<E>(
                            index,
                            place,
                            sender.clone(),
                            Rc::clone(&common),
                        ))
                    })
                    .collect();
                for stream in streams {
                    let _ = stream.await;
                }
            }
            Err(broken) => {
                common.borrow_mut().not_connected(&broken);
                sleep(wait).await;
                wait = (wait * 2).min(LAST_RETRY);
            }
        }
    }
}

fn set_open(common: &Common, index: usize) {
    if let Some(was_open) = common.borrow_mut().was_open.get_mut(index) {
        *was_open = true;
    }
}

/// One stream after the other in one place, until the connection breaks or nothing is left.
async fn stream<E: Exchange>(connection: usize, place: usize, sender: SendRequest<Bytes>, common: Common) {
    let Ok(mut sender) = sender.ready().await else { return };
    loop {
        let Some((head, body, request, due)) = common.borrow_mut().take(connection) else { return };
        let (clock, limit) = {
            let shared = common.borrow();
            (shared.clock, shared.plan.timeout)
        };
        if common.borrow().pace.is_some() {
            wait_until(due, &clock).await;
        }
        let sent = clock.now();
        let due = if common.borrow().pace.is_some() { due } else { sent };
        set(&common, place, Some((sent, due)));
        let result = match timeout(limit, E::exchange(sender.clone(), head, body, &common)).await {
            Ok(result) => result,
            Err(_) => {
                let late = Broken::new(Failure::Timeout, format!("no answer after {limit:?}"));
                Err(Lost::Failed(late))
            }
        };
        set(&common, place, None);
        if common.borrow_mut().finish(result, connection, (request, sent, due)).is_break() {
            return;
        }
        sender = match sender.ready().await {
            Ok(sender) => sender,
            Err(_) => return,
        };
    }
}

fn set(common: &Common, place: usize, value: Option<(u64, u64)>) {
    if let Some(entry) = common.borrow_mut().in_flight.get_mut(place) {
        *entry = value;
    }
}

async fn open(index: usize, common: &Common) -> Result<SendRequest<Bytes>, Broken> {
    let (clock, way) = {
        let shared = common.borrow();
        (shared.clock, Way::of(&shared.plan, shared.server_name.as_ref(), index))
    };
    let begun = clock.now();
    let raw = way.connect().await?;
    common.borrow_mut().tally.connect.saturating_record(clock.now() - begun);
    match (raw, way.tls.clone()) {
        (Raw::Unix(socket), _) => shake_hands(socket).await,
        (Raw::Tcp(socket), None) => shake_hands(socket).await,
        (Raw::Tcp(socket), Some((config, name))) => {
            let session = way.secure(config, name, socket).await?;
            common.borrow_mut().tally.handshake.saturating_record(clock.now() - begun);
            shake_hands(session).await
        }
    }
}

pub(crate) async fn shake_hands<S>(socket: S) -> Result<SendRequest<Bytes>, Broken>
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let mut builder = h2::client::Builder::new();
    builder.initial_window_size(WINDOW_BYTES).initial_connection_window_size(WINDOW_BYTES).enable_push(false);
    let (sender, connection) = builder
        .handshake(socket)
        .await
        .map_err(|error| Broken::new(Failure::Connect, format!("http/2: {error}")))?;
    // Its end is seen by the streams.
    tokio::task::spawn_local(async move { drop(connection.await) });
    Ok(sender)
}
