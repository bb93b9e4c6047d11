//! The bytes under an HTTP/2 connection.
//!
//! Crate `h2` flushes after every DATA frame, which would be one system call (and one TLS record) per response. So
//! its flushes do nothing; [`Wire::poll_send`] writes once per round of the connection's task, when every stream
//! has been polled, or after some rounds that were cut short.

use std::{
    cell::RefCell,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, ready},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::frames::FrameWatch;
use crate::{buffer::Buffer, runtime::Runtime, stream::Stream};

/// The most bytes gathered before the peer must take some.
const GATHERED: usize = 64 * 1024;

/// Shared by `h2`, which reads and writes, and the connection's task, which flushes and keeps time.
pub(crate) struct Wire {
    worker: &'static Runtime,
    stream: Stream,
    /// Received before the protocol was known.
    early: Buffer,
    out: Vec<u8>,
    sent: usize,
    /// Client connections only.
    watch: Option<FrameWatch>,
    /// Since when the peer takes nothing, on the worker's clock.
    blocked_ms: Option<u64>,
    /// When its last bytes came.
    received_ms: u64,
    /// How often some came.
    reads: u64,
}

pub(crate) type SharedWire = Rc<RefCell<Wire>>;

impl Wire {
    pub(crate) fn new(
        worker: &'static Runtime,
        stream: Stream,
        early: Buffer,
        watch: Option<FrameWatch>,
    ) -> SharedWire {
        let out = worker.buffers.output();
        let now_ms = worker.deadlines.now_ms();
        let (blocked_ms, received_ms) = (None, now_ms);
        let mut wire = Wire { worker, stream, early, out, sent: 0, watch, blocked_ms, received_ms, reads: 0 };
        if let Some(watch) = &mut wire.watch {
            let before = watch.received(wire.early.filled(), now_ms);
            wire.early.truncate(before);
        }
        Rc::new(RefCell::new(wire))
    }

    /// Writes the gathered bytes.
    pub(crate) fn poll_send(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.out.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match self.stream.poll_write(context, rest) {
                Poll::Pending => return self.blocked(),
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.sent += count;
                    self.blocked_ms = None;
                    if let Some(watch) = &mut self.watch {
                        watch.sent(count);
                    }
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        self.out.clear();
        self.sent = 0;
        match self.stream.poll_flush(context) {
            Poll::Pending => self.blocked(),
            Poll::Ready(result) => {
                self.blocked_ms = None;
                Poll::Ready(result)
            }
        }
    }

    fn blocked(&mut self) -> Poll<io::Result<()>> {
        let now_ms = self.worker.deadlines.now_ms();
        self.blocked_ms.get_or_insert(now_ms);
        Poll::Pending
    }

    pub(crate) fn flood(&self) -> Option<&'static str> {
        self.watch.as_ref().and_then(FrameWatch::flood)
    }

    pub(crate) fn received_ms(&self) -> u64 {
        self.received_ms
    }

    pub(crate) fn reads(&self) -> u64 {
        self.reads
    }

    /// Since when the peer takes nothing although there is something for it.
    pub(crate) fn blocked_since_ms(&self) -> Option<u64> {
        self.blocked_ms
    }

    pub(crate) fn stream(&mut self) -> &mut Stream {
        &mut self.stream
    }

    /// An idle connection holds no buffer.
    pub(crate) fn release(&mut self) {
        if self.out.is_empty() && self.out.capacity() > 0 {
            self.worker.buffers.give_back_output(std::mem::take(&mut self.out));
        }
    }

    fn poll_read(&mut self, context: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if !self.early.is_empty() {
            let count = self.early.len().min(buffer.remaining());
            buffer.put_slice(self.early.filled().get(..count).unwrap_or_default());
            self.early.consume(count);
            if self.early.is_empty() {
                self.worker.buffers.give_back(std::mem::take(&mut self.early));
            }
            return Poll::Ready(Ok(()));
        }
        if self.flood().is_some() {
            // The connection's task ends it; what the client sends is not answered any more.
            return Poll::Pending;
        }
        let start = buffer.filled().len();
        ready!(self.stream.poll_read_buffer(context, buffer))?;
        let now_ms = self.worker.deadlines.now_ms();
        self.received_ms = now_ms;
        self.reads += u64::from(buffer.filled().len() > start);
        if let Some(watch) = &mut self.watch {
            let received = buffer.filled().get(start..).unwrap_or_default();
            let (count, before) = (received.len(), watch.received(received, now_ms));
            if before < count {
                buffer.set_filled(start + before);
                if before == 0 {
                    return Poll::Pending;
                }
            }
        }
        Poll::Ready(Ok(()))
    }

    /// Room for more, or waits until the peer has taken what is there.
    fn poll_room(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.out.len() - self.sent >= GATHERED {
            ready!(self.poll_send(context))?;
        }
        if self.out.capacity() == 0 {
            self.out = self.worker.buffers.output();
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.worker.buffers.give_back(std::mem::take(&mut self.early));
        self.worker.buffers.give_back_output(std::mem::take(&mut self.out));
    }
}

/// The stream that `h2` reads and writes.
pub(crate) struct Io(pub SharedWire);

impl AsyncRead for Io {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_read(context, buffer)
    }
}

impl AsyncWrite for Io {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        let mut wire = self.0.borrow_mut();
        ready!(wire.poll_room(context))?;
        wire.out.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let mut wire = self.0.borrow_mut();
        ready!(wire.poll_room(context))?;
        for piece in pieces {
            wire.out.extend_from_slice(piece);
        }
        Poll::Ready(Ok(pieces.iter().map(|piece| piece.len()).sum()))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut wire = self.0.borrow_mut();
        ready!(wire.poll_send(context))?;
        wire.stream.poll_shutdown(context)
    }
}
