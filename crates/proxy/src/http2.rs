//! HTTP/2 with clients (RFC 9113): one task per connection that handles frames, and one per stream that follows the
//! same path as an HTTP/1 request, see [`crate::request`].
//!
//! Crate `h2` speaks the protocol. What it does not limit is counted in [`frames`]; time is kept here: a client that
//! sends nothing, takes nothing or never finishes a head is closed.

mod begin;
pub(crate) mod frames;
pub(crate) mod head;
pub(crate) mod io;
mod line;
mod places;
pub(crate) mod pool;
pub(crate) mod reply;
mod sending;
pub(crate) mod stream;
mod stream_end;
mod untaken;

use std::{
    cell::{Cell, RefCell, RefMut},
    future::poll_fn,
    pin::pin,
    rc::Rc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use h2::{
    Reason,
    server::{Builder, Connection},
};
use tidegate_plugin_api::connection::ConnectionInfo as Facts;
use tidegate_telemetry::error_log;

use self::{
    frames::FrameWatch,
    io::{Io, SharedWire, Wire},
    line::{Fresh, Line},
    places::Places,
    sending::Sending,
    untaken::Account,
};
use crate::{
    buffer::Buffer, linger, proxy_protocol, settings::Http2, stats, stream::Stream, timers::Timer,
    worker::Worker,
};

/// How long a client may take to end after GOAWAY.
const GOODBYE_MS: u64 = 2_000;

/// Requests that a connection starts in a turn of its own, see [`crate::turns`].
const STARTS: u32 = 16;

/// Requests that it starts in a round without one, and while others wait for theirs.
const AT_ONCE: u32 = STARTS;
const AT_ONCE_OF_MANY: u32 = 4;

/// Rounds in a row, cut short after so many requests, that send nothing: what they have to send leaves with the next, in
/// one record and one system call.
const GATHERING: u32 = 3;

/// State that the tasks of a connection share.
struct Shared {
    worker: &'static Worker,
    facts: Rc<Facts>,
    /// Requests at work. One that the client cancelled counts until its task has noticed.
    working: Cell<u32>,
    /// Requests that wait for others to end.
    lined: Cell<usize>,
    waker: RefCell<Option<Waker>>,
    sending: Rc<Sending>,
}

/// Serves a connection until it ends. `early`: what was received before the protocol was known.
pub(crate) async fn serve(worker: &'static Worker, stream: Stream, early: Buffer, facts: Rc<Facts>) {
    let Some(limits) = &worker.settings.http2 else { return };
    let wire = Wire::new(worker, stream, early, Some(FrameWatch::new(limits)));
    let timer = Timer::new(&worker.deadlines);
    let account = Account::of(proxy_protocol::ends(worker, &facts).client.ip());
    let shared = Rc::new(Shared {
        worker,
        facts,
        working: Cell::new(0),
        lined: Cell::new(0),
        waker: RefCell::default(),
        sending: Rc::new(Sending::new(Places::new(&worker.deadlines, account))),
    });
    let mut handshake = pin!(builder(limits, worker).handshake::<_, Bytes>(Io(wire.clone())));
    timer.set(worker.settings.client_header_timeout_ms);
    let established = poll_fn(|context| {
        timer.attach(context);
        shared.sending.places.attach(context);
        shared.waker.replace(Some(context.waker().clone()));
        let established = handshake.as_mut().poll(context);
        // Our settings leave before the client's have come.
        let sent = wire.borrow_mut().poll_send(context);
        match established {
            Poll::Ready(established) => Poll::Ready(established.ok()),
            Poll::Pending if timer.expired() || matches!(sent, Poll::Ready(Err(_))) => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await;
    let Some(connection) = established else { return };
    let mut life = Life {
        shared,
        connection,
        wire,
        timer,
        line: Line::default(),
        stage: Stage::Open,
        waiting: Waiting::Nothing,
        idle: None,
        gathering: 0,
        held: None,
        number: None,
    };
    life.set_timer();
    poll_fn(|context| life.poll(context)).await;
    let Life { connection, wire, timer, idle, line, held, .. } = life;
    drop((idle, line, held));
    drop(connection);
    if !timer.expired() {
        let stream = || RefMut::map(wire.borrow_mut(), Wire::stream);
        linger::linger(worker, &timer, linger::SHORT_MS, stream).await;
    }
}

fn builder(limits: &Http2, worker: &Worker) -> Builder {
    let list_bytes = (worker.settings.reading.limits.head_bytes * 2).max(frames::LIST_BYTES);
    let mut builder = h2::server::Builder::new();
    builder
        .max_concurrent_streams(limits.max_concurrent_streams)
        .initial_window_size(limits.stream_window_bytes)
        .initial_connection_window_size(limits.connection_window_bytes)
        // Twice our limit: h2 answers a larger list with 431 without a log line; a smaller one is checked here.
        .max_header_list_size(u32::try_from(list_bytes).unwrap_or(u32::MAX))
        .max_send_buffer_size(64 * 1024)
        // Streams that were cancelled before they were accepted, and those in error.
        .max_pending_accept_reset_streams(limits.max_concurrent_streams as usize)
        .max_local_error_reset_streams(Some(limits.max_resets as usize))
        .enable_connect_protocol();
    builder
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Open,
    /// GOAWAY is out; streams that are at work finish.
    Leaving,
    /// Only the last bytes are still to be sent.
    Aborted,
}

/// What the connection's time limit applies to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    Nothing,
    /// No request at work.
    NextRequest,
    /// The client takes nothing.
    Client,
    Goodbye,
}

struct Life {
    shared: Rc<Shared>,
    connection: Connection<Io, Bytes>,
    wire: SharedWire,
    timer: Timer,
    line: Line,
    stage: Stage,
    waiting: Waiting,
    idle: Option<Idle>,
    /// Rounds in a row that have sent nothing.
    gathering: u32,
    /// A request that waits for a turn of the connection, and the number of that.
    held: Option<Fresh>,
    number: Option<u64>,
}

/// Counts a connection without requests.
struct Idle(&'static Worker);

impl Idle {
    fn new(worker: &'static Worker) -> Idle {
        stats::add(&worker.stats.idle, 1);
        Idle(worker)
    }
}

impl Drop for Idle {
    fn drop(&mut self) {
        stats::sub(&self.0.stats.idle, 1);
    }
}

impl Life {
    /// One round: frames in, requests started, frames out.
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<()> {
        self.shared.sending.places.admit_overdue();
        let starts = self.advance(context);
        if self.start(starts, context).is_ready() {
            // h2 may have queued a GOAWAY with the reason; the client may be gone already.
            let _ = self.wire.borrow_mut().poll_send(context);
            return Poll::Ready(());
        }
        let cut = self.held.is_some() && self.shared.worker.turns.is_next(self.number);
        self.gathering = if cut && self.gathering < GATHERING { self.gathering + 1 } else { 0 };
        if self.gathering > 0 {
            return Poll::Pending;
        }
        let sent = self.wire.borrow_mut().poll_send(context);
        match sent {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Ready(Ok(())) => self.shared.sending.all_sent(),
            Poll::Pending => self.shared.sending.is_stuck(),
        }
        self.set_timer();
        if self.timer.expired() {
            return self.time_is_up(context);
        }
        Poll::Pending
    }

    /// Starts the requests of a round: a few, or those of a turn. Ready: the connection has ended.
    fn start(&mut self, mut starts: u32, context: &mut Context<'_>) -> Poll<()> {
        let worker = self.shared.worker;
        let turns = &worker.turns;
        let mut most = if turns.is_busy() { AT_ONCE_OF_MANY } else { AT_ONCE };
        loop {
            let waits = self.held.is_some() && turns.poll_turn(&mut self.number, context).is_pending();
            if !waits && let Some(fresh) = self.held.take() {
                self.receive(fresh);
                most = starts + STARTS;
                starts += 1;
            }
            let accepted = match waits {
                // Frames of requests at work go on; those of new ones stay with h2.
                true => self.connection.poll_closed(context).map(|ended| ended.err().map(Err)),
                false => self.connection.poll_accept(context),
            };
            match accepted {
                Poll::Ready(Some(Ok((request, respond)))) => {
                    let fresh = Fresh::new(request, respond);
                    if starts < most {
                        self.receive(fresh);
                        starts += 1;
                    } else {
                        self.held = Some(fresh);
                    }
                }
                Poll::Ready(Some(Err(error))) => {
                    self.log_end(&error);
                    return Poll::Ready(());
                }
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending if self.change_stage() => {}
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    fn log_end(&self, error: &h2::Error) {
        let peer = self.shared.facts.peer.ip();
        // What h2 counts itself: streams reset before they were looked at, streams in error, small DATA frames.
        let flood = error.is_library() && error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
        let (level, what) = match flood {
            true => (error_log::Level::Warn, "flood"),
            false => (error_log::Level::Info, "connection ended"),
        };
        error_log::log(level, format_args!("HTTP/2 {what}: {error}, client: {peer}"));
    }

    /// Whether h2 has a new GOAWAY to send.
    fn change_stage(&mut self) -> bool {
        let flood = self.wire.borrow().flood();
        if let Some(flood) = flood.filter(|_| self.stage != Stage::Aborted) {
            let peer = self.shared.facts.peer.ip();
            error_log::log(error_log::Level::Warn, format_args!("HTTP/2 flood: {flood}, client: {peer}"));
            self.connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            self.stage = Stage::Aborted;
            return true;
        }
        if self.shared.worker.draining.get() && self.stage == Stage::Open {
            self.connection.graceful_shutdown();
            self.stage = Stage::Leaving;
            return true;
        }
        false
    }

    fn set_timer(&mut self) {
        let settings = &self.shared.worker.settings;
        let idle = self.shared.working.get() == 0 && self.line.len() == 0 && self.held.is_none();
        let blocked = self.wire.borrow().blocked_since_ms().is_some();
        let waiting = match self.stage {
            Stage::Aborted => Waiting::Goodbye,
            Stage::Leaving if idle => Waiting::Goodbye,
            _ if blocked => Waiting::Client,
            _ if idle => Waiting::NextRequest,
            _ => Waiting::Nothing,
        };
        if waiting == Waiting::NextRequest {
            self.wire.borrow_mut().release();
        }
        if waiting == self.waiting && waiting != Waiting::Client {
            return;
        }
        self.waiting = waiting;
        self.idle = (waiting == Waiting::NextRequest).then(|| Idle::new(self.shared.worker));
        match waiting {
            Waiting::Nothing => self.timer.clear(),
            Waiting::NextRequest => self.timer.set_idle(settings.keepalive_timeout_ms),
            Waiting::Goodbye => self.timer.set(GOODBYE_MS),
            Waiting::Client => {
                let now_ms = self.shared.worker.deadlines.now_ms();
                let since_ms = self.wire.borrow().blocked_since_ms().unwrap_or(now_ms);
                let gone_ms = now_ms.saturating_sub(since_ms);
                self.timer.set(settings.send_timeout_ms.saturating_sub(gone_ms));
            }
        }
    }

    fn time_is_up(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self.waiting {
            Waiting::NextRequest => {
                self.connection.graceful_shutdown();
                self.stage = Stage::Leaving;
                self.set_timer();
                // Poll again: the GOAWAY has to leave.
                context.waker().wake_by_ref();
                Poll::Pending
            }
            _ => Poll::Ready(()),
        }
    }
}
