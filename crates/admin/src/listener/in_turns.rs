//! A connection that writes little at a time.
//!
//! A page of metrics can have tens of megabytes. The kernel takes megabytes of it in one write, and a thread that writes without
//! ever waiting keeps its core until the scheduler's next tick, up to 4 ms later, though a worker was woken meanwhile: the worker's
//! lag counts against it, whatever its nice value. A sender that sleeps after each piece cannot: the longest wait of a
//! worker behind it was 0.5 ms instead of 4.4.

use std::{
    future::Future,
    io::{self, IoSlice},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Sleep, sleep},
};

/// Two packets of the loopback device: some 30 us.
const LEAST: usize = 128 * 1024;

/// The longest piece of an answer that has more than a hundred pieces behind it, so that it, too, ends soon.
const MOST: usize = 512 * 1024;

/// Tokio's timers have steps of a millisecond.
const PAUSE: Duration = Duration::from_millis(1);

/// A stream whose long writes are cut into pieces with a pause after each.
pub(crate) struct InTurns<S> {
    pub inner: S,
    /// Bytes of the long write so far.
    written: usize,
    pause: Option<Pin<Box<Sleep>>>,
}

impl<S> InTurns<S> {
    pub(crate) fn new(inner: S) -> InTurns<S> {
        InTurns { inner, written: 0, pause: None }
    }

    fn piece(&self) -> usize {
        (self.written / 128).clamp(LEAST, MOST)
    }

    fn poll_pause(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if let Some(pause) = &mut self.pause {
            ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        Poll::Ready(())
    }

    /// After a write of `count` bytes of `offered`.
    fn wrote(&mut self, count: usize, offered: usize) {
        if count < offered && count >= LEAST {
            self.written += count;
            self.pause = Some(Box::pin(sleep(PAUSE)));
        } else if count == offered {
            self.written = 0;
        }
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
        let this = self.get_mut();
        ready!(this.poll_pause(context));
        let piece = bytes.get(..this.piece()).unwrap_or(bytes);
        let count = ready!(Pin::new(&mut this.inner).poll_write(context, piece))?;
        this.wrote(count, bytes.len());
        Poll::Ready(Ok(count))
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
            total <= LEAST
        });
        match together.count() {
            0 => Pin::new(this).poll_write(context, parts.first().map_or(&[][..], |part| part)),
            count => {
                ready!(this.poll_pause(context));
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
        assert_eq!(stream.write_vectored(&parts).await.expect("written"), LEAST);
        let Noted(sizes, bytes) = stream.inner;
        assert_eq!(sizes, [LEAST, LEAST, 300_000 - 2 * LEAST, 8, 4, LEAST]);
        assert_eq!(bytes.get(..300_000), Some(&body[..]));
        let mut reader = InTurns::new(&b"abc"[..]);
        let mut text = String::new();
        reader.read_to_string(&mut text).await.expect("read");
        assert_eq!(text, "abc");
    }

    #[tokio::test(flavor = "current_thread")]
    async fn a_long_answer_pauses() {
        let begun = std::time::Instant::now();
        let mut stream = InTurns::new(Noted::default());
        stream.write_all(&vec![b'x'; 8 * LEAST]).await.expect("written");
        assert!(begun.elapsed() >= 7 * PAUSE, "{:?}", begun.elapsed());
        assert_eq!(stream.written, 0, "the next answer begins with short pieces");
    }

    /// A pause of a millisecond takes some 2.2.
    #[test]
    fn an_answer_of_any_size_ends_soon() {
        let pauses = |bytes: usize| {
            let mut stream = InTurns::new(());
            let mut pauses = 0;
            while stream.written < bytes {
                stream.written += stream.piece();
                pauses += 1;
            }
            pauses
        };
        assert_eq!(pauses(20 << 20), 157);
        assert!(pauses(256 << 20) < 900, "{}", pauses(256 << 20));
    }
}
