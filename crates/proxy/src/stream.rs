//! A connection's bytes, plain or under TLS.

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

pub enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl Stream {
    /// Reads what is there. `AsyncRead` on purpose: after a short read the runtime knows the socket is drained and the
    /// next poll waits without a system call.
    pub fn poll_read(&mut self, context: &mut Context<'_>, room: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(room);
        ready!(match self {
            Stream::Plain(stream) => Pin::new(stream).poll_read(context, &mut buffer),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_read(context, &mut buffer),
        })?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    pub fn poll_write(&mut self, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_write(context, data),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_write(context, data),
        }
    }

    /// TLS may hold back records; plain sockets hold nothing.
    pub fn poll_flush(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(_) => Poll::Ready(Ok(())),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_flush(context),
        }
    }

    pub fn poll_shutdown(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Stream::Tls(stream) => Pin::new(stream.as_mut()).poll_shutdown(context),
        }
    }

    /// Ready when bytes (or the end) wait on the socket, as far as the runtime has heard; no system call.
    pub fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self {
            Stream::Plain(stream) => stream.poll_read_ready(context),
            Stream::Tls(stream) => stream.get_ref().0.poll_read_ready(context),
        }
    }

    /// Whether decrypted bytes wait to be read.
    pub fn holds_received(&mut self) -> bool {
        let held = match self {
            Stream::Plain(_) => return false,
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
