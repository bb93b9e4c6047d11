//! A connection that still reads an early answer: a service that has seen enough answers and closes, and the rest of
//! the request fails to send.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// After a failed write nothing more is sent; only reading shows how the exchange ends. Linux still delivers what came
/// before a reset.
pub(crate) struct Heard<S> {
    stream: S,
    is_broken: bool,
}

impl<S> Heard<S> {
    pub(super) fn new(stream: S) -> Heard<S> {
        Heard { stream, is_broken: false }
    }

    fn forgive(&mut self, written: Poll<io::Result<usize>>, length: usize) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(Err(_)) => {
                self.is_broken = true;
                Poll::Ready(Ok(length))
            }
            other => other,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.is_broken {
            return Poll::Ready(Ok(bytes.len()));
        }
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.forgive(written, bytes.len())
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = pieces.iter().map(|piece| piece.len()).sum();
        if self.is_broken {
            return Poll::Ready(Ok(length));
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, pieces);
        self.forgive(written, length)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_broken {
            return Poll::Ready(Ok(()));
        }
        let flushed = Pin::new(&mut self.stream).poll_flush(context).map_ok(|()| 0);
        self.forgive(flushed, 0).map_ok(|_| ())
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
