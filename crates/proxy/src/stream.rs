//! A connection's bytes, plain or under TLS, or those of one stream of an HTTP/2 connection.

use std::{
    fs::File,
    io::{self, BufRead},
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use rustix::net::SendFlags;
use socket2::SockRef;
use tokio::{
    io::{AsyncRead, AsyncWrite, Interest, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsStream;

use crate::http2::stream::Http2Stream;

pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Bytes of DATA frames. Heads and trailers are sent separately.
    Http2(Box<Http2Stream>),
}

impl Stream {
    /// Reads what is there. `AsyncRead` on purpose: after a short read the runtime knows the socket is drained and the
    /// next poll waits without a system call.
    pub(crate) fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(room);
        ready!(self.poll_read_buffer(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    /// As [`Stream::poll_read`]. A plain socket fills room that is not initialized.
    pub(crate) fn poll_read_buffer(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, buffer),
            Stream::Http2(stream) => {
                let count = ready!(stream.poll_raw(context, buffer.initialize_unfilled()))?;
                buffer.advance(count);
                Poll::Ready(Ok(()))
            }
        }
    }

    /// Reads what is on the socket, still encrypted under TLS: for what is only dropped.
    pub(crate) fn poll_read_raw(
        &mut self,
        context: &mut Context<'_>,
        room: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(room);
        let socket = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_mut().0,
            Stream::Http2(_) => return Poll::Ready(Ok(0)),
        };
        ready!(Pin::new(socket).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    pub(crate) fn poll_write(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, data),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, data),
            Stream::Http2(stream) => stream.poll_write(context, data, false),
        }
    }

    /// Whether bytes of files can go out without passing through this process.
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self, Stream::Plain(_))
    }

    /// As [`Stream::poll_write`], for a plain socket that gets more at once: the kernel may wait for it to fill a packet.
    pub(crate) fn poll_write_more(
        &mut self,
        context: &mut Context<'_>,
        data: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => poll_socket(stream, context, |socket| {
                Ok(rustix::net::send(socket, data, SendFlags::MORE | SendFlags::NOSIGNAL)?)
            }),
            other => other.poll_write(context, data),
        }
    }

    /// Sends bytes of a file from the page cache; only on a plain socket. Waits for the disk if they are not there.
    pub(crate) fn poll_send_file(
        &mut self,
        context: &mut Context<'_>,
        file: &File,
        offset: u64,
        count: usize,
    ) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => poll_socket(stream, context, |socket| {
                let mut at = offset;
                Ok(rustix::fs::sendfile(socket, file, Some(&mut at), count)?)
            }),
            _ => Poll::Ready(Err(io::ErrorKind::Unsupported.into())),
        }
    }

    /// TLS may hold back records; plain sockets hold nothing, and frames leave with their connection's next round.
    pub(crate) fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) | Stream::Http2(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    pub(crate) fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Stream::Http2(stream) => Poll::Ready(stream.end(None)),
        }
    }

    /// Ready when bytes (or the end) wait on the socket, as far as the runtime knows; no system call.
    pub(crate) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => stream.poll_read_ready(context),
            Stream::Tls(stream) => stream.get_ref().0.poll_read_ready(context),
            // Its connection reads for it.
            Stream::Http2(_) => Poll::Pending,
        }
    }

    pub(crate) fn is_http2(&self) -> bool {
        matches!(self, Stream::Http2(_))
    }

    /// Whether decrypted bytes wait to be read.
    pub(crate) fn holds_received(&mut self) -> bool {
        let held = match self {
            Stream::Plain(_) | Stream::Http2(_) => return false,
            Stream::Tls(stream) => match stream.as_mut() {
                TlsStream::Client(stream) => stream.get_mut().1.reader().fill_buf().map(drop),
                TlsStream::Server(stream) => stream.get_mut().1.reader().fill_buf().map(drop),
            },
        };
        // The end of the stream, orderly or not, is there to be read too.
        !matches!(held, Err(error) if error.kind() == io::ErrorKind::WouldBlock)
    }

    /// Whether bytes have come that were not read from the socket.
    pub(crate) fn has_unread(&self) -> bool {
        let socket = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
            Stream::Http2(_) => return false,
        };
        rustix::io::ioctl_fionread(socket).is_ok_and(|count| count > 0)
    }

    /// Closing it will tell the peer that something is missing.
    pub(crate) fn reset_when_closed(&self) {
        let socket = match self {
            Stream::Plain(stream) => stream,
            Stream::Tls(stream) => stream.get_ref().0,
            Stream::Http2(_) => return,
        };
        // Without a reset it just closes.
        let _ = SockRef::from(socket).set_linger(Some(Duration::ZERO));
    }

    pub(crate) fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}

/// One call on a socket that does not block, once it has room.
fn poll_socket(
    stream: &TcpStream,
    context: &mut Context<'_>,
    call: impl Fn(&TcpStream) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(context))?;
        match stream.try_io(Interest::WRITABLE, || call(stream)) {
            // The runtime has noted that the socket is full.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => return Poll::Ready(other),
        }
    }
}
