//! The PROXY protocol in front of a client's first byte, and of the first one to an upstream with `proxy_protocol`.
//!
//! It is read only on ports that are opened for it: there a connection without a header is closed, so that no client can bypass
//! the balancer. The address in the header becomes the client's only where the configuration trusts the peer.

use std::{io, net::SocketAddr};

use tidegate_plugin_api::{connection::ConnectionInfo, upstream::ProxyProtocol};
use tidegate_protocol::proxy_protocol::{Decoder, ProxyHeader};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::runtime::Runtime;

/// Bytes looked at together; most headers are shorter.
const LOOK: usize = 256;

/// Takes the header off the stream and not a byte more, so that TLS finds its first one: bytes are peeked at before
/// they are taken. `None`: the balancer speaks for itself, or knows no address.
///
/// The caller sets the time limit.
pub(crate) async fn read(stream: &mut TcpStream) -> io::Result<Option<ProxyHeader>> {
    let mut decoder = Decoder::default();
    let mut room = [0; LOOK];
    loop {
        let count = stream.peek(&mut room).await?;
        let seen = room.get(..count).unwrap_or_default();
        if seen.is_empty() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let progress = decoder.push(seen).map_err(malformed)?;
        // At once: it is there.
        stream.read_exact(room.get_mut(..progress.used).unwrap_or_default()).await?;
        if let Some(proxy_header) = progress.header {
            return Ok(proxy_header);
        }
    }
}

/// Writes the header of a connection to an upstream. The caller sets the time limit.
pub(crate) async fn write(
    stream: &mut TcpStream,
    version: ProxyProtocol,
    ends: ProxyHeader,
) -> io::Result<()> {
    let mut header = Vec::with_capacity(128);
    version.write(Some(ends), &mut header);
    stream.write_all(&header).await
}

/// Both ends of the client's connection, as announced by a trusted balancer. Header fields of requests change
/// nothing: the PROXY header is for all of them.
pub(crate) fn ends(worker: &Runtime, client: &ConnectionInfo) -> ProxyHeader {
    match client.proxy_header() {
        Some(proxy_header) if believes(worker, client.peer) => *proxy_header,
        _ => ProxyHeader { client: client.peer, server: client.local },
    }
}

/// Whether `real_ip_from` has the peer: else any client could claim any address.
pub(crate) fn believes(worker: &Runtime, peer: SocketAddr) -> bool {
    let real_ip = worker.settings.reading.real_ip.as_ref();
    real_ip.is_some_and(|real_ip| real_ip.trusted.contains(peer.ip().to_canonical()))
}

fn malformed(reason: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, reason.to_owned())
}
