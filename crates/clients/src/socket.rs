//! Sending bytes to a TCP (or TLS) or UDP receiver: one connection per batch.

use std::{net::SocketAddr, time::Duration};

use tidegate_plugin_api::descriptors;
use tokio::{
    io::AsyncWriteExt,
    net::{TcpStream, UdpSocket},
};

use crate::http::{TlsWanted, tls_config};

#[derive(Clone, Debug)]
pub struct SocketSink {
    pub host: String,
    pub port: u16,
    pub timeout: Duration,
    pub kind: SocketKind,
}

#[derive(Clone, Debug)]
pub enum SocketKind {
    Tcp,
    /// With the server name to ask for; the certificate is not verified, as in APISIX.
    Tls {
        server_name: Option<String>,
    },
    Udp,
}

impl SocketSink {
    pub async fn send(&self, data: &[u8]) -> Result<(), String> {
        match &self.kind {
            SocketKind::Udp => self.datagrams().await?.send(data).await,
            SocketKind::Tcp => {
                let mut stream = self.connect().await?;
                self.write(&mut stream, data).await
            }
            SocketKind::Tls { server_name } => {
                let stream = self.connect().await?;
                let failed = |reason: String| self.failed("perform TLS handshake to TCP server", &reason);
                let wanted = TlsWanted { verify: false, client: None };
                let config = tls_config(&wanted).map_err(failed)?;
                let name = server_name.as_deref().unwrap_or(&self.host).to_owned();
                let name = name.try_into().map_err(|_| failed("invalid server name".to_owned()))?;
                let handshake = self.within(tidegate_tls::connect(config, name, stream)).await;
                let mut stream = handshake.map_err(failed)?;
                self.write(&mut stream, data).await
            }
        }
    }

    async fn connect(&self) -> Result<TcpStream, String> {
        let connecting =
            async { TcpStream::connect((self.host.as_str(), self.port)).await.and_then(descriptors::spared) };
        self.within(connecting).await.map_err(|reason| self.failed("connect to TCP server", &reason))
    }

    async fn write(&self, stream: &mut (impl AsyncWriteExt + Unpin), data: &[u8]) -> Result<(), String> {
        let sent = async {
            stream.write_all(data).await?;
            stream.shutdown().await
        };
        self.within(sent).await.map_err(|reason| self.failed("send data to TCP server", &reason))
    }

    /// A socket for several datagrams, whatever the kind.
    pub async fn datagrams(&self) -> Result<Datagrams<'_>, String> {
        let failed = |reason: String| self.failed("connect to UDP server", &reason);
        let address = self
            .within(tokio::net::lookup_host((self.host.as_str(), self.port)))
            .await
            .and_then(|mut found| found.next().ok_or_else(|| "no address".to_owned()))
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

/// What UDP over IPv4 carries at most.
pub const MAX_DATAGRAM: usize = 65_507;

/// The datagrams of one batch.
pub struct Datagrams<'a> {
    sink: &'a SocketSink,
    socket: UdpSocket,
    address: SocketAddr,
}

impl Datagrams<'_> {
    pub async fn send(&self, data: &[u8]) -> Result<(), String> {
        let sent = self.sink.within(self.socket.send_to(data, self.address)).await;
        sent.map(|_| ()).map_err(|reason| self.sink.failed("send data to UDP server", &reason))
    }
}
