//! A connection that writes little at a time.
//!
//! A page of metrics can have tens of megabytes. The kernel takes megabytes of it in one write, and a thread that writes without
//! ever waiting keeps its core until the scheduler's next tick, up to 4 ms later, though a worker was woken meanwhile: the worker's
//! lag counts against it, whatever its nice value. A sender that gives way between pieces cannot.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tidegate_telemetry::background::give_way;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Half a packet of the loopback device: some 10 us, and 100 where memory for it has to be found, or the reader's end is done on this core.
const PIECE: usize = 32 * 1024;

/// A stream whose long writes are cut into pieces, between which the thread gives way.
pub(crate) struct InTurns<S> {
    pub inner: S,
}

impl<S> InTurns<S> {
    pub(crate) fn new(inner: S) -> InTurns<S> {
        InTurns { inner }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for InTurns<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InTurns<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        if bytes.len() > PIECE {
            give_way();
        }
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        Pin::new(&mut self.get_mut().inner).poll_write(context, piece)
    }

    /// Small parts, such as a head, go together; a large one goes alone.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let mut total = 0;
        let together = parts.iter().take_while(|part| {
            total += part.len();
            total <= PIECE
        });
        match together.count() {
            0 => Pin::new(this).poll_write(context, parts.first().map_or(&[][..], |part| part)),
            count => {
                Pin::new(&mut this.inner).poll_write_vectored(context, parts.get(..count).unwrap_or_default())
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().inner).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// Notes how much each write was offered, and takes all of it.
    #[derive(Default)]
    struct Noted(Vec<usize>, Vec<u8>);

    impl AsyncWrite for Noted {
        fn poll_write(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.0.push(bytes.len());
            self.1.extend_from_slice(bytes);
            Poll::Ready(Ok(bytes.len()))
        }
        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            parts: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            let before = self.1.len();
            parts.iter().for_each(|part| self.1.extend_from_slice(part));
            let length = self.1.len() - before;
            self.0.push(length);
            Poll::Ready(Ok(length))
        }
        fn is_write_vectored(&self) -> bool {
            true
        }
        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[tokio::test(flavor = "current_thread")]
    async fn large_writes_are_cut_and_small_ones_stay_together() {
        let body: Vec<u8> = (0..300_000u32).map(|number| number as u8).collect();
        let mut stream = InTurns::new(Noted::default());
        stream.write_all(&body).await.expect("written");
        let parts = [IoSlice::new(b"head"), IoSlice::new(b"body")];
        assert_eq!(stream.write_vectored(&parts).await.expect("written"), 8);
        let parts = [IoSlice::new(b"head"), IoSlice::new(&body)];
        assert_eq!(stream.write_vectored(&parts).await.expect("written"), 4);
        let parts = [IoSlice::new(&body), IoSlice::new(b"tail")];
        assert_eq!(stream.write_vectored(&parts).await.expect("written"), PIECE);
        let Noted(sizes, bytes) = stream.inner;
        let (whole, rest) = sizes.split_at(300_000 / PIECE);
        assert!(whole.iter().all(|size| *size == PIECE), "{whole:?}");
        assert_eq!(rest, [300_000 % PIECE, 8, 4, PIECE]);
        assert_eq!(bytes.get(..300_000), Some(&body[..]));
        let mut reader = InTurns::new(&b"abc"[..]);
        let mut text = String::new();
        reader.read_to_string(&mut text).await.expect("read");
        assert_eq!(text, "abc");
    }
}
