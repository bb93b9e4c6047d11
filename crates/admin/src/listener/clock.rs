//! How long a connection may take for what it is doing.
//!
//! ```text
//! accepted -> Head -> (a request is answered: no limit of ours) -> Taking -> Idle -> Head
//! ```
//!
//! A connection in `Head` or `Idle` may be closed before its time, where connections run out.
//!
//! The library that speaks HTTP has one time limit for a head and for the idleness before it; here they are two.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::Notify,
    time::{Instant, sleep_until},
};

/// For an answer, which may be large: a list of everything, a page of metrics.
const LONGEST_TAKING: Duration = Duration::from_secs(120);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// Of a request, or a handshake.
    Head,
    /// A request is being received and answered; the code that does so watches its own time.
    Request,
    /// The client takes the answer.
    Taking,
    Idle,
    /// It gave its place up to another connection.
    Closed,
}

pub(super) struct Clock {
    state: Mutex<(Stage, Instant)>,
    /// Since when no request is under way: accepted, or answered.
    waiting_since: Mutex<Instant>,
    /// When an answer has to be taken, however slowly its parts are.
    taken_by: Mutex<Instant>,
    /// The deadline is nearer now: the waiting task has to look again.
    nearer: Notify,
    head: Duration,
    send: Duration,
    idle: Duration,
}

impl Clock {
    /// From the moment a connection was accepted. The limits are for a head, for taking an answer, and between two requests.
    pub(super) fn new(head: Duration, send: Duration, idle: Duration) -> Arc<Clock> {
        let accepted = Instant::now();
        Arc::new(Clock {
            state: Mutex::new((Stage::Head, accepted + head)),
            waiting_since: Mutex::new(accepted),
            taken_by: Mutex::new(accepted),
            nearer: Notify::new(),
            head,
            send,
            idle,
        })
    }

    /// Resolves when the time is up.
    pub(super) async fn expired(&self) {
        loop {
            let (stage, deadline) = *self.state();
            let over = async {
                match stage {
                    Stage::Request => std::future::pending().await,
                    Stage::Closed => {}
                    _ => sleep_until(deadline).await,
                }
            };
            tokio::select! {
                () = over => {
                    let (stage, deadline) = *self.state();
                    if stage == Stage::Closed || (stage != Stage::Request && deadline <= Instant::now()) {
                        return;
                    }
                }
                () = self.nearer.notified() => {}
            }
        }
    }

    /// A head is complete. `false`: too late, the connection is closed.
    pub(super) fn request(&self) -> bool {
        let mut state = self.state();
        if state.0 != Stage::Closed {
            state.0 = Stage::Request;
        }
        state.0 == Stage::Request
    }

    /// Since when the connection waits for a request; `None`: it has one.
    pub(super) fn waiting_since(&self) -> Option<Instant> {
        let waits = matches!(self.state().0, Stage::Head | Stage::Idle);
        waits.then(|| *self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Whether it gave its place up.
    pub(super) fn is_closed(&self) -> bool {
        self.state().0 == Stage::Closed
    }

    /// Ends a connection that waits for a request. `false`: it has one by now.
    pub(super) fn close(&self) -> bool {
        let mut state = self.state();
        let waits = matches!(state.0, Stage::Head | Stage::Idle);
        if waits {
            state.0 = Stage::Closed;
            self.nearer.notify_one();
        }
        waits
    }

    /// Whether the client may be sending a head: it has only connected, or begun.
    pub(crate) fn awaits_head(&self) -> bool {
        self.state().0 == Stage::Head
    }

    /// The answer is ready to be sent.
    pub(super) fn answered(&self) {
        *self.taken_by.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now() + LONGEST_TAKING;
        self.set(Stage::Taking, self.send);
    }

    fn received(&self) {
        if self.state().0 == Stage::Idle {
            self.set(Stage::Head, self.head);
        }
    }

    fn sent(&self) {
        let mut state = self.state();
        if state.0 == Stage::Taking {
            let taken_by = *self.taken_by.lock().unwrap_or_else(PoisonError::into_inner);
            state.1 = taken_by.min(Instant::now() + self.send);
        }
    }

    fn flushed(&self) {
        if self.state().0 == Stage::Taking {
            *self.waiting_since.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
            self.set(Stage::Idle, self.idle);
        }
    }

    fn set(&self, stage: Stage, limit: Duration) {
        let mut state = self.state();
        if state.0 != Stage::Closed {
            *state = (stage, Instant::now() + limit);
            self.nearer.notify_one();
        }
    }

    fn state(&self) -> MutexGuard<'_, (Stage, Instant)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A stream that reports to its clock what happens.
pub(super) struct Timed<S>(pub S, pub Arc<Clock>);

impl<S: AsyncRead + Unpin> AsyncRead for Timed<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Timed(stream, clock) = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(stream).poll_read(context, into))?;
        if into.filled().len() > before {
            clock.received();
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Timed<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let Timed(stream, clock) = self.get_mut();
        let count = ready!(Pin::new(stream).poll_write(context, bytes))?;
        clock.sent();
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Timed(stream, clock) = self.get_mut();
        let count = ready!(Pin::new(stream).poll_write_vectored(context, parts))?;
        clock.sent();
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    /// Called when nothing is left to be written.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Timed(stream, clock) = self.get_mut();
        ready!(Pin::new(stream).poll_flush(context))?;
        clock.flushed();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
    }
}
