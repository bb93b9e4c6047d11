//! A new connection: speaks HTTP/2 on it, offers it to the other requests, and moves it until it ends.

use std::{
    cell::Cell,
    future::Future,
    io,
    net::SocketAddr,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll},
};

use bytes::Bytes;
use h2::client::Connection;
use tidegate_plugin_api::upstream::KeepalivePool;
use tidegate_telemetry::error_log;

use super::{
    super::io::{Io, SharedWire, Wire},
    Existing, Lease, Opening, Shared, State, Turn, Wanted,
    silence::{Silence, Wait},
    window::MOST_STREAMS,
};
use crate::{buffer::Buffer, runtime::Runtime, stall, stream::Stream, timers::Timer};

/// Requests have their own time limits; this ends a connection on which none makes progress.
const NODE_TAKES_NOTHING_MS: u64 = 60_000;

/// How often a connection waits for what else is ready to run, while requests are added to it: they leave together.
const LAPS: u32 = 2;

/// Speaks HTTP/2 on a new connection and offers it to the other requests too.
pub(crate) async fn establish(
    opening: Opening,
    runtime: &'static Runtime,
    stream: Stream,
    address: SocketAddr,
    wanted: &Wanted<'_>,
    limits: KeepalivePool,
) -> io::Result<Lease> {
    let wire = Wire::new(runtime, stream, Buffer::default(), None);
    let Opening { pool, place, window, existing, turn } = opening;
    let gate = existing.gate.clone();
    let (window_bytes, number) = (window.bytes(), pool.next_number());
    let mut builder = h2::client::Builder::new();
    builder
        .enable_push(false)
        .initial_window_size(window_bytes)
        // Room for all streams: answers that are not read must not block those of other requests.
        .initial_connection_window_size(MOST_STREAMS as u32 * window_bytes)
        .max_header_list_size(u32::try_from(runtime.settings.max_response_head_bytes).unwrap_or(u32::MAX))
        .max_send_buffer_size(64 * 1024);
    // Sends the preface and waits for nothing.
    let (send, mut connection) =
        builder.handshake::<_, Bytes>(Io(wire.clone())).await.map_err(io::Error::other)?;
    let ping = connection.ping_pong();
    let state = Rc::new(State::default());
    state.probing.set(gate.is_silent());
    // No other connection is opened until a silent node sends something.
    let (turn, probe) = if gate.is_silent() { (None, Some(turn)) } else { (Some(turn), None) };
    let timer = Timer::new(&runtime.deadlines);
    let driver = Driver {
        connection,
        wire,
        state: state.clone(),
        silence: Silence::new(runtime, ping),
        timer,
        blocked: false,
        address,
        attached: false,
        reads: 0,
        probe,
        laps: 0,
        existing,
    };
    tokio::task::spawn_local(stall::watched(runtime, "an HTTP/2 connection to an upstream", driver));
    let shared = Rc::new(Shared {
        place,
        gate,
        number,
        idle: Cell::default(),
        address,
        server_name: wanted.server_name.into(),
        window,
        send,
        uses: Cell::new(0),
        state,
        limits,
        idle_until_ms: Cell::new(u64::MAX),
        runtime,
        pool,
    });
    let lease = Lease::new(&shared);
    pool.with_node(place, |node| {
        node.retain(pool, |connection| !connection.state.closed.get());
        if shared.is_kept() {
            node.connections.push(shared);
        }
    });
    drop(turn);
    Ok(lease)
}

/// The task of a connection: it ends when the last reference to the connection is dropped, or the node closes
/// it.
struct Driver {
    connection: Connection<Io, Bytes>,
    wire: SharedWire,
    state: Rc<State>,
    silence: Silence,
    timer: Timer,
    /// The node takes nothing; the timer runs.
    blocked: bool,
    address: SocketAddr,
    attached: bool,
    /// Those of the wire that were looked at.
    reads: u64,
    /// Until the node sends something, no other connection is opened.
    probe: Option<Turn>,
    /// In a row.
    laps: u32,
    // The last field: the socket is closed first.
    existing: Existing,
}

impl Driver {
    /// Wakes waiting requests when something came.
    fn listen(&mut self) -> u64 {
        let (reads, received_ms) = {
            let wire = self.wire.borrow();
            (wire.reads(), wire.received_ms())
        };
        if std::mem::replace(&mut self.reads, reads) != reads {
            self.state.heard_ms.set(received_ms);
            self.state.doubted.set(false);
            self.state.probing.set(false);
            self.existing.gate.heard();
            self.probe = None;
        }
        received_ms
    }
}

impl Future for Driver {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let driver = &mut *self;
        if !std::mem::replace(&mut driver.attached, true) {
            driver.timer.attach(context);
        }
        if driver.state.added.take() && driver.laps < LAPS {
            driver.laps += 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        driver.laps = 0;
        let ended = Pin::new(&mut driver.connection).poll(context);
        let received_ms = driver.listen();
        let sent = driver.wire.borrow_mut().poll_send(context);
        if let Poll::Ready(ended) = ended {
            if let Err(error) = ended {
                error_log::log(
                    error_log::Level::Info,
                    format_args!("HTTP/2 connection to upstream {} ended: {error}", driver.address),
                );
            }
            return Poll::Ready(());
        }
        match sent {
            Poll::Ready(Err(_)) => return Poll::Ready(()),
            Poll::Ready(Ok(())) => {
                driver.blocked = false;
                let waiting = driver.state.active.get() > 0 || driver.probe.is_some();
                match driver.silence.poll(context, waiting, received_ms) {
                    Wait::Nothing => driver.timer.clear(),
                    Wait::Until(after_ms) => driver.timer.set(after_ms),
                    // The ping is in the connection, which has to be asked for its bytes.
                    Wait::Send => context.waker().wake_by_ref(),
                    Wait::Over => {
                        error_log::log(
                            error_log::Level::Error,
                            format_args!(
                                "HTTP/2 connection to upstream {} does not respond; it is closed",
                                driver.address
                            ),
                        );
                        driver.state.silent.set(true);
                        driver.existing.gate.fell_silent();
                        return Poll::Ready(());
                    }
                }
                return Poll::Pending;
            }
            Poll::Pending if !driver.blocked => {
                driver.timer.set(NODE_TAKES_NOTHING_MS);
                driver.blocked = true;
            }
            Poll::Pending => {}
        }
        if !driver.timer.expired() {
            return Poll::Pending;
        }
        driver.state.silent.set(true);
        driver.existing.gate.fell_silent();
        Poll::Ready(())
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.state.closed.set(true);
    }
}
