//! A connection that writes little at a time.
//!
//! A page of metrics can have tens of megabytes. The kernel takes megabytes of it in one write and is not interrupted
//! meanwhile, and what it then delivers delays the packets that are sent next on that core: measured on workers, 2 to
//! 12 ms once a scrape. Between small writes they have their turn.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Two packets of the loopback device.
const MOST: usize = 128 * 1024;

pub(crate) struct InTurns<S>(pub S);

fn at_most(bytes: &[u8]) -> &[u8] {
    bytes.get(..MOST).unwrap_or(bytes)
}

impl<S: AsyncRead + Unpin> AsyncRead for InTurns<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_read(context, into)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for InTurns<S> {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.get_mut().0).poll_write(context, at_most(bytes))
    }

    /// Small parts, such as a head, go together; a large one goes alone.
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let inner = Pin::new(&mut self.get_mut().0);
        let mut total = 0;
        let together = parts.iter().take_while(|part| {
            total += part.len();
            total <= MOST
        });
        match together.count() {
            0 => inner.poll_write(context, at_most(parts.first().map_or(&[][..], |part| part))),
            count => inner.poll_write_vectored(context, parts.get(..count).unwrap_or_default()),
        }
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_flush(context)
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().0).poll_shutdown(context)
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
        let mut stream = InTurns(Noted::default());
        stream.write_all(&body).await.expect("written");
        let parts = [IoSlice::new(b"head"), IoSlice::new(b"body")];
        assert_eq!(stream.write_vectored(&parts).await.expect("written"), 8);
        let parts = [IoSlice::new(b"head"), IoSlice::new(&body)];
        assert_eq!(stream.write_vectored(&parts).await.expect("written"), 4);
        let parts = [IoSlice::new(&body), IoSlice::new(b"tail")];
        assert_eq!(stream.write_vectored(&parts).await.expect("written"), MOST);
        let InTurns(Noted(sizes, bytes)) = stream;
        assert_eq!(sizes, [MOST, MOST, 300_000 - 2 * MOST, 8, 4, MOST]);
        assert_eq!(bytes.get(..300_000), Some(&body[..]));
        let mut reader = InTurns(&b"abc"[..]);
        let mut text = String::new();
        reader.read_to_string(&mut text).await.expect("read");
        assert_eq!(text, "abc");
    }
}
