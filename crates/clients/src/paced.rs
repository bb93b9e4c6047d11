//! Connections of plugins to services: endless data of a service neither fills memory nor occupies a thread.
//!
//! The bytes that may come are a credit. It is spent as bytes arrive, and a connection without credit ends. After a number of
//! bytes other tasks get their turn, however fast the service is.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// How much is read or written in one turn.
const TURN: usize = 256 << 10;

/// How much the other side may still send.
#[derive(Clone, Debug)]
pub(crate) struct Credit {
    left: Arc<AtomicUsize>,
    grant: Grant,
}

/// How much a write allows the other side to answer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grant {
    pub(crate) per_write: usize,
    pub(crate) per_byte: usize,
    /// More than this is never allowed.
    pub most: usize,
}

impl Credit {
    pub(crate) fn new(bytes: usize, grant: Grant) -> Credit {
        Credit { left: Arc::new(AtomicUsize::new(bytes)), grant }
    }

    pub(crate) fn set(&self, bytes: usize) {
        self.left.store(bytes, Relaxed);
    }

    /// Whether nothing has come since the credit was set to `bytes`.
    pub(crate) fn is_unspent(&self, bytes: usize) -> bool {
        self.left.load(Relaxed) == bytes
    }

    fn spend(&self, bytes: usize) {
        let left = |left: usize| (left != usize::MAX).then(|| left.saturating_sub(bytes));
        let _ = self.left.fetch_update(Relaxed, Relaxed, left);
    }

    fn earn(&self, written: usize) {
        let Grant { per_write, per_byte, most } = self.grant;
        if most == 0 {
            return;
        }
        let more = per_write + written.saturating_mul(per_byte);
        let _ = self.left.fetch_update(Relaxed, Relaxed, |left| Some(left.saturating_add(more).min(most)));
    }
}

pub(crate) struct Paced<S> {
    stream: S,
    credit: Credit,
    /// The bytes left of this turn.
    left: usize,
}

impl<S> Paced<S> {
    pub(crate) fn new(stream: S, credit: Credit) -> Paced<S> {
        Paced { stream, credit, left: TURN }
    }

    fn poll_turn(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if self.left > 0 {
            return Poll::Ready(());
        }
        self.left = TURN;
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn wrote(&mut self, count: usize) {
        self.left = self.left.saturating_sub(count);
        self.credit.earn(count);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Paced<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.credit.left.load(Relaxed) == 0 {
            return Poll::Ready(Err(io::Error::other("the response of the service is too long")));
        }
        ready!(self.poll_turn(context));
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        let count = buffer.filled().len() - before;
        self.left = self.left.saturating_sub(count);
        self.credit.spend(count);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Paced<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready!(self.poll_turn(context));
        let piece = bytes.get(..TURN).unwrap_or(bytes);
        let count = ready!(Pin::new(&mut self.stream).poll_write(context, piece))?;
        self.wrote(count);
        Poll::Ready(Ok(count))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if pieces.iter().map(|piece| piece.len()).sum::<usize>() > TURN {
            let first = pieces.iter().find(|piece| !piece.is_empty());
            return self.poll_write(context, first.map_or(&[], |piece| &**piece));
        }
        ready!(self.poll_turn(context));
        let count = ready!(Pin::new(&mut self.stream).poll_write_vectored(context, pieces))?;
        self.wrote(count);
        Poll::Ready(Ok(count))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
