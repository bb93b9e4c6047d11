//! `tidegate echo`: a server that answers with the request that it got, to try routes and plugins against.
//!
//! HTTP/1 is read and shown byte for byte; HTTP/2 begins with its preface, with TLS or without. What a request asks for by
//! its path or its fields is in [`answer`]: a status, a delay, a size, events. WebSockets and gRPC calls get back what they
//! send.
//!
//! What a client can make this server hold is bounded: connections, heads, and what is shown of bodies. So is the time between
//! two pieces, but for WebSockets, gRPC calls and HTTP/2 connections, which may be silent.
//! Deliberately absent: any knowledge of gateways.

#![forbid(unsafe_code)]

mod answer;
mod capture;
mod http1;
mod http2;
mod options;
mod patience;
mod rewound;
mod tls;
mod websocket;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
};

pub use self::{
    answer::MAX_DELAY,
    options::Options,
    tls::{Identity, server_config},
};
use self::{http1::HANDSHAKE, patience::in_time};

/// A connection more than these waits until another ends.
const MAX_CONNECTIONS: usize = 1000;
/// What an HTTP/2 connection begins with (RFC 9113 section 3.4).
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// A server whose port is open.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    options: Arc<Options>,
}

impl Server {
    /// Opens the port.
    pub async fn bind(address: SocketAddr, options: Options) -> io::Result<Server> {
        Ok(Server { listener: TcpListener::bind(address).await?, options: Arc::new(options) })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until it is dropped.
    pub async fn run(self) {
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = self.listener.accept().await else {
                // No descriptor is left, or the client has gone: others end meanwhile.
                tokio::time::sleep(Duration::from_millis(10)).await;
                continue;
            };
            let options = self.options.clone();
            tokio::spawn(async move {
                // A client that leaves is not an error of ours.
                let _ = connection(stream, options).await;
                drop(place);
            });
        }
    }
}

async fn connection(mut stream: TcpStream, options: Arc<Options>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(tls) = options.tls.clone() else { return http(stream, options).await };
    let mut first = [0];
    if in_time(stream.peek(&mut first)).await? == 1 && first != [HANDSHAKE] {
        let text = "This port speaks TLS: use https:// for it.";
        return in_time(stream.write_all(&http1::refusal(400, text))).await;
    }
    let stream = in_time(tokio_rustls::TlsAcceptor::from(tls).accept(stream)).await?;
    http(stream, options).await
}

/// Either version, by the first bytes.
async fn http<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    mut stream: S,
    options: Arc<Options>,
) -> io::Result<()> {
    let mut first = Vec::with_capacity(PREFACE.len());
    while first.len() < PREFACE.len() && PREFACE.starts_with(&first) {
        let mut rest = (&mut stream).take((PREFACE.len() - first.len()) as u64);
        if in_time(rest.read_buf(&mut first)).await? == 0 {
            return Ok(());
        }
    }
    match first == PREFACE {
        true => http2::serve(rewound::Rewound::new(first, stream), options).await,
        false => http1::serve(stream, first, &options).await,
    }
}
