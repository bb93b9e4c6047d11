//! A connection's bytes, plain or under TLS, or those of one stream of an HTTP/2 connection.

use std::{
    io::{self, BufRead},
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};
use tokio_rustls::TlsStream;

use crate::http2::stream::Http2Stream;

pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// Bytes of DATA frames. Heads and trailers have ways of their own.
    Http2(Box<Http2Stream>),
}

impl Stream {
    /// Reads what is there. `AsyncRead` on purpose: after a short read the runtime knows the socket is drained and the
    /// next poll waits without a system call.
    pub fn poll_read(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        if let Stream::Http2(stream) = self {
            return stream.poll_raw(context, room);
        }
        let mut buffer = ReadBuf::new(room);
        ready!(match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, &mut buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, &mut buffer),
            Stream::Http2(_) => Poll::Pending,
        })?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    pub fn poll_write(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, data),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, data),
            Stream::Http2(stream) => stream.poll_write(context, data, false),
        }
    }

    /// TLS may hold back records; plain sockets hold nothing, and frames leave with their connection's next round.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) | Stream::Http2(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
            Stream::Http2(stream) => Poll::Ready(stream.end(None)),
        }
    }

    /// Ready when bytes (or the end) wait on the socket, as far as the runtime has heard; no system call.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => stream.poll_read_ready(context),
            Stream::Tls(stream) => stream.get_ref().0.poll_read_ready(context),
            // Its connection reads for it.
            Stream::Http2(_) => Poll::Pending,
        }
    }

    pub fn is_http2(&self) -> bool {
        matches!(self, Stream::Http2(_))
    }

    /// Whether decrypted bytes wait to be read.
    pub fn holds_received(&mut self) -> bool {
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

    pub fn is_tls(&self) -> bool {
        matches!(self, Stream::Tls(_))
    }
}
