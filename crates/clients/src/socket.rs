//! Sending bytes to a TCP (or TLS) or UDP receiver: one connection per batch.

use std::{
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tidegate_plugin_api::{descriptors, stop};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf},
    net::UdpSocket,
    sync::Mutex,
};

use crate::{
    http::{TlsWanted, tls_config},
    names,
};

/// A receiver of log entries on a socket.
#[derive(Clone, Debug)]
pub struct SocketSink {
    /// A name or address.
    pub host: String,
    /// Of TCP or UDP.
    pub port: u16,
    /// To connect, and to write.
    pub timeout: Duration,
    /// The transport.
    pub kind: SocketKind,
}

/// The transport of a [`SocketSink`].
#[derive(Clone, Debug)]
pub enum SocketKind {
    /// Plain TCP.
    Tcp,
    /// TLS over TCP.
    Tls {
        /// To ask for, in place of the host.
        server_name: Option<String>,
        /// Whether the certificate is.
        verify: bool,
    },
    /// One datagram for each call of `send`.
    Udp,
}

/// A connection, with TLS or without.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl SocketSink {
    /// Over a connection of its own. The error names what failed, host and port.
    pub async fn send(&self, data: &[u8]) -> Result<(), String> {
        if let SocketKind::Udp = self.kind {
            return self.datagrams().await?.send(data).await;
        }
        let mut stream = self.connect().await?;
        self.finish(stream.as_mut(), data).await
    }

    /// Sends the last data of a connection.
    async fn finish(&self, stream: &mut dyn Stream, data: &[u8]) -> Result<(), String> {
        let sent = async {
            stream.write_all(data).await?;
            stream.shutdown().await
        };
        let failed = |reason: String| self.failed("send data to TCP server", &reason);
        self.within(sent).await.map_err(failed)?;
        read_out(stream).await.map_err(|error| failed(error.to_string()))
    }

    async fn connect(&self) -> Result<Box<dyn Stream>, String> {
        let connecting = async { names::connect(&self.host, self.port).await.and_then(descriptors::spared) };
        let stream = self.within(connecting).await;
        let stream = stream.map_err(|reason| self.failed("connect to TCP server", &reason))?;
        let SocketKind::Tls { server_name, verify } = &self.kind else { return Ok(Box::new(stream)) };
        let failed = |reason: String| self.failed("perform TLS handshake to TCP server", &reason);
        let config = tls_config(&TlsWanted { verify: *verify, client: None }).map_err(failed)?;
        let name = server_name.as_deref().unwrap_or(&self.host).to_owned();
        let name = name.try_into().map_err(|_| failed("invalid server name".to_owned()))?;
        let handshake = self.within(tidegate_tls::connect(config, name, stream)).await;
        Ok(Box::new(handshake.map_err(failed)?))
    }

    /// A socket for several datagrams, whatever the kind.
    pub async fn datagrams(&self) -> Result<Datagrams<'_>, String> {
        let failed = |reason: String| self.failed("connect to UDP server", &reason);
        let address = self
            .within(names::addresses(&self.host, self.port))
            .await
            .and_then(|found| found.first().copied().ok_or_else(|| "no address".to_owned()))
            .map_err(failed)?;
        let local = if address.is_ipv4() { "0.0.0.0:0" } else { "[::]:0" };
        let socket = self.within(UdpSocket::bind(local)).await.map_err(failed)?;
        Ok(Datagrams { sink: self, socket, address })
    }

    async fn within<T>(&self, future: impl Future<Output = std::io::Result<T>>) -> Result<T, String> {
        match tokio::time::timeout(self.timeout, future).await {
            Ok(result) => result.map_err(|error| match error.kind() {
                std::io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
                _ => error.to_string(),
            }),
            Err(_) => Err("timeout".to_owned()),
        }
    }

    fn failed(&self, what: &str, reason: &str) -> String {
        format!("failed to {what}: host[{}] port[{}] err: {reason}", self.host, self.port)
    }
}

/// How long a receiver has to close a connection that is finished.
const PATIENCE: Duration = Duration::from_secs(1);
/// What it may say before.
const MOST_HEARD: usize = 1 << 20;

/// Reads what the receiver still says, until it closes: to close a socket with unread bytes resets the connection, and what is on its
/// way is lost (RFC 9293, 3.10.4). A TLS 1.3 server that sends session tickets has always said something. The error is an
/// alert: the receiver has refused the connection.
async fn read_out(stream: &mut dyn Stream) -> std::io::Result<()> {
    let reading = async {
        let (mut buffer, mut heard) = ([0; 4096], 0);
        while heard < MOST_HEARD {
            match stream.read(&mut buffer).await {
                Ok(0) => break,
                Ok(count) => heard += count,
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => return Err(error),
                // It is gone. Whether it had read everything, only it knows.
                Err(_) => break,
            }
        }
        Ok(())
    };
    tokio::time::timeout(PATIENCE, reading).await.unwrap_or(Ok(()))
}

/// What UDP over IPv4 carries at most.
pub const MAX_DATAGRAM: usize = 65_507;

/// The datagrams of one batch.
pub struct Datagrams<'a> {
    sink: &'a SocketSink,
    socket: UdpSocket,
    address: SocketAddr,
}

impl Datagrams<'_> {
    /// One datagram.
    pub async fn send(&self, data: &[u8]) -> Result<(), String> {
        let sent = self.sink.within(self.socket.send_to(data, self.address)).await;
        sent.map(|_| ()).map_err(|reason| self.sink.failed("send data to UDP server", &reason))
    }
}

/// A sink over TCP or TLS that keeps its connection for the next batch.
pub struct KeptSink {
    sink: SocketSink,
    /// A connection that was idle for longer is not used again.
    keepalive: Duration,
    kept: Mutex<Option<(Box<dyn Stream>, Instant)>>,
}

impl KeptSink {
    /// Keeps an idle connection for this long.
    pub fn new(sink: SocketSink, keepalive: Duration) -> KeptSink {
        KeptSink { sink, keepalive, kept: Mutex::new(None) }
    }

    /// Batches are sent one after the other.
    pub async fn send(&self, data: &[u8]) -> Result<(), String> {
        let mut kept = self.kept.lock().await;
        let known = kept.take().and_then(|(mut stream, since)| {
            let is_usable = since.elapsed() < self.keepalive && !has_ended(stream.as_mut());
            if is_usable { Some(stream) } else { close(stream) }
        });
        let mut stream = match known {
            Some(stream) => stream,
            None => self.sink.connect().await?,
        };
        if stop::is_requested() {
            // The process ends: there may be no later batch.
            return self.sink.finish(stream.as_mut(), data).await;
        }
        let sent = async {
            stream.write_all(data).await?;
            stream.flush().await
        };
        let sent = self.sink.within(sent).await;
        sent.map_err(|reason| self.sink.failed("send data to TCP server", &reason))?;
        *kept = Some((stream, Instant::now()));
        Ok(())
    }
}

impl Drop for KeptSink {
    fn drop(&mut self) {
        if let Some((stream, _)) = self.kept.get_mut().take() {
            close(stream);
        }
    }
}

/// Closes a connection in the background, so that what is on its way arrives. Returns no stream to go on with.
fn close(mut stream: Box<dyn Stream>) -> Option<Box<dyn Stream>> {
    let guard = stop::guard();
    tidegate_plugin_api::host()?.background.spawn(async move {
        let closing = async {
            stream.shutdown().await?;
            read_out(stream.as_mut()).await
        };
        let _ = tokio::time::timeout(PATIENCE * 2, closing).await;
        drop(guard);
    });
    None
}

/// Whether the other side has closed the connection. What it says is ignored.
fn has_ended(stream: &mut dyn Stream) -> bool {
    let mut buffer = [0; 256];
    let mut buffer = ReadBuf::new(&mut buffer);
    match Pin::new(stream).poll_read(&mut Context::from_waker(Waker::noop()), &mut buffer) {
        Poll::Ready(Ok(())) => buffer.filled().is_empty(),
        Poll::Ready(Err(_)) => true,
        Poll::Pending => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As the look-up of a name may, which is all that takes time with UDP.
    #[tokio::test]
    async fn nothing_takes_longer_than_the_timeout() {
        let timeout = Duration::from_millis(20);
        let sink = SocketSink { host: "a.test".to_owned(), port: 9, timeout, kind: SocketKind::Udp };
        let begun = Instant::now();
        let never = std::future::pending::<std::io::Result<()>>();
        assert_eq!(sink.within(never).await, Err("timeout".to_owned()));
        assert!(begun.elapsed() >= timeout);
    }
}
