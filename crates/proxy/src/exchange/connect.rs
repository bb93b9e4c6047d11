//! A connection to a node: an idle one, or a new one.

pub(super) mod crowded;

use std::{future::poll_fn, net::SocketAddr, pin::pin, task::Poll, time::Instant};

use tidegate_plugin_api::{
    UpstreamHandle, descriptors,
    upstream::{Node, ProxyProtocol, Timeouts},
};
use tokio::net::TcpStream;

use super::{failure::FailureKind, tls};
use crate::{boxed::boxed, client::Downstream, proxy_protocol, stream::Stream};

/// Sent and not acknowledged; by itself Linux waits a quarter of an hour.
const UNACKNOWLEDGED_MS: u32 = 30_000;

pub(crate) struct Connected {
    pub stream: Stream,
    /// Requests it has served before.
    pub uses: u32,
    pub address: SocketAddr,
}

pub(super) async fn connect(
    client: &Downstream,
    upstream: &UpstreamHandle,
    node: &Node,
    timeouts: Timeouts,
    sni: &[u8],
    fresh: bool,
) -> Result<Connected, FailureKind> {
    let address = node.address.ok_or(FailureKind::Unresolved)?;
    if !fresh && let Some((stream, uses)) = idle(client, upstream, node, sni) {
        return Ok(Connected { stream, uses, address });
    }
    let crowded = &client.worker.crowded;
    crowded.check(address).map_err(FailureKind::Connect)?;
    client.timer.set(timeouts.connect_ms);
    let mut connecting = pin!(TcpStream::connect(address));
    // The first poll calls `connect`.
    let mut began = Some(Instant::now());
    let connected = poll_fn(|context| {
        let polled = connecting.as_mut().poll(context);
        if let Some(began) = began.take() {
            crowded.searched(address, began, &client.worker.stalls);
        }
        match polled {
            Poll::Pending if client.timer.expired() => Poll::Ready(None),
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
    let _ = rustix::net::sockopt::set_tcp_user_timeout(&stream, UNACKNOWLEDGED_MS);
    if let Some(version) = upstream.proxy_protocol {
        announce(client, &mut stream, version).await?;
    }
    let stream = match &upstream.tls {
        None => Stream::Plain(stream),
        // Its future is big, and requests that take an idle connection should not carry it.
        Some(settings) => boxed(|| tls::handshake(client, stream, settings, sni, timeouts)).await?,
    };
    Ok(Connected { stream, uses: 0, address })
}

/// With `proxy_protocol` only the client's own, and then the shared pool has none of this node.
fn idle(client: &Downstream, upstream: &UpstreamHandle, node: &Node, sni: &[u8]) -> Option<(Stream, u32)> {
    let worker = client.worker;
    worker.pool.take(node.pool, sni).or_else(|| match upstream.proxy_protocol {
        None => None,
        Some(_) => worker.own_pool.take(client.facts.id, node.pool, sni),
    })
}

/// Sends the PROXY header with the client's addresses, within the time for connecting.
async fn announce(
    client: &Downstream,
    stream: &mut TcpStream,
    version: ProxyProtocol,
) -> Result<(), FailureKind> {
    let ends = proxy_protocol::ends(client.worker, &client.facts);
    let mut writing = pin!(proxy_protocol::write(stream, version, ends));
    let written = poll_fn(|context| match writing.as_mut().poll(context) {
        Poll::Pending if client.timer.expired() => Poll::Ready(None),
        other => other.map(Some),
    });
    written.await.ok_or(FailureKind::ConnectTimeout)?.map_err(FailureKind::Connect)
}
