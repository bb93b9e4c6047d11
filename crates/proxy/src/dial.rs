//! A new connection to a node, for requests and for sessions of TCP.

use std::{future::poll_fn, net::SocketAddr, pin::pin, task::Poll, time::Instant};

use rustls_pki_types::ServerName;
use tidegate_plugin_api::{
    connection::ProxyHeader,
    descriptors,
    upstream::{ProxyProtocol, TlsClient},
};
use tokio::net::{TcpSocket, TcpStream};

use crate::{exchange::FailureKind, proxy_protocol, stream::Stream, timers::Timer, worker::Worker};

/// Sent and not acknowledged; by itself Linux waits a quarter of an hour. It counts alike where a node acknowledges, and has no room.
const UNACKNOWLEDGED_MS: u64 = 30_000;

/// What there is to know of a connection before it is made.
pub(crate) struct Dial<'a> {
    pub worker: &'static Worker,
    /// Of the client; its limit is set.
    pub timer: &'a Timer,
    /// For connecting; a TLS handshake may take as long again.
    pub connect_ms: u64,
    /// How long a node may take nothing of what is sent to it.
    pub send_ms: u64,
    /// The PROXY header that it begins with.
    pub announce: Option<(ProxyProtocol, ProxyHeader)>,
    pub tls: Option<&'a TlsClient>,
    /// The name of the TLS handshake, perhaps with a port; without a valid one, the node's address.
    pub sni: &'a [u8],
    /// One that is bound; else a new one.
    pub socket: Option<TcpSocket>,
}

impl Dial<'_> {
    /// Connects, announces the client and shakes hands.
    pub(crate) async fn connect(mut self, address: SocketAddr) -> Result<Stream, FailureKind> {
        let crowded = &self.worker.crowded;
        crowded.check(address).map_err(FailureKind::Connect)?;
        self.timer.set(self.connect_ms);
        let bound = self.socket.take();
        let mut connecting = pin!(async {
            match bound {
                Some(socket) => socket.connect(address).await,
                None => TcpStream::connect(address).await,
            }
        });
        // The first poll calls `connect`.
        let mut began = Some(Instant::now());
        let connected = poll_fn(|context| {
            let polled = connecting.as_mut().poll(context);
            if let Some(began) = began.take() {
                crowded.searched(address, began, &self.worker.stalls);
            }
            match polled {
                Poll::Pending if self.timer.expired() => Poll::Ready(None),
                other => other.map(Some),
            }
        })
        .await;
        let mut stream = match connected {
            None => return Err(FailureKind::ConnectTimeout),
            Some(connected) => connected.and_then(descriptors::spared).map_err(FailureKind::Connect)?,
        };
        // Head and first body bytes leave in one write, but later ones must not wait for an acknowledgement.
        let _ = stream.set_nodelay(true);
        // Also for connections without a waiting request: the kernel gives up a peer that acknowledges nothing.
        let most_ms = self.send_ms.clamp(UNACKNOWLEDGED_MS, i32::MAX as u64);
        let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, most_ms as u32);
        if let Some((version, ends)) = self.announce {
            self.write_header(&mut stream, version, ends).await?;
        }
        match self.tls {
            None => Ok(Stream::Plain(stream)),
            Some(settings) => self.shake_hands(stream, settings).await,
        }
    }

    /// Within the time for connecting.
    async fn write_header(
        &self,
        stream: &mut TcpStream,
        version: ProxyProtocol,
        ends: ProxyHeader,
    ) -> Result<(), FailureKind> {
        let mut writing = pin!(proxy_protocol::write(stream, version, ends));
        let written = poll_fn(|context| match writing.as_mut().poll(context) {
            Poll::Pending if self.timer.expired() => Poll::Ready(None),
            other => other.map(Some),
        });
        written.await.ok_or(FailureKind::ConnectTimeout)?.map_err(FailureKind::Connect)
    }

    async fn shake_hands(&self, stream: TcpStream, settings: &TlsClient) -> Result<Stream, FailureKind> {
        let name = server_name(self.sni).unwrap_or_else(|| {
            let address =
                stream.peer_addr().map_or(std::net::Ipv4Addr::LOCALHOST.into(), |address| address.ip());
            ServerName::IpAddress(address.into())
        });
        self.timer.set(self.connect_ms);
        let mut handshake = pin!(tidegate_tls::connect(settings.config.clone(), name, stream));
        let done = poll_fn(|context| match handshake.as_mut().poll(context) {
            Poll::Pending if self.timer.expired() => Poll::Ready(None),
            other => other.map(Some),
        })
        .await;
        match done {
            None => Err(FailureKind::ConnectTimeout),
            Some(Err(error)) => Err(FailureKind::Connect(error)),
            Some(Ok(stream)) => Ok(Stream::Tls(Box::new(stream.into()))),
        }
    }
}

/// The host that the request names, without its port.
fn server_name(host: &[u8]) -> Option<ServerName<'static>> {
    let host = std::str::from_utf8(host).ok()?;
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.ends_with(':') => name,
        _ => host,
    };
    ServerName::try_from(name.trim_matches(['[', ']']).to_owned()).ok()
}
