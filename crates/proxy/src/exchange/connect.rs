//! A connection to a node: an idle one, or a new one.

pub(super) mod crowded;

use std::net::SocketAddr;

use tidegate_plugin_api::{
    UpstreamHandle,
    upstream::{Node, Timeouts},
};

use super::failure::FailureKind;
use crate::{boxed::boxed, client::Downstream, dial::Dial, proxy_protocol, stream::Stream};

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
    let announce = upstream.proxy_protocol.map(|version| {
        let ends = proxy_protocol::ends(client.worker, &client.facts);
        (version, ends)
    });
    let dial = Dial {
        worker: client.worker,
        timer: &client.timer,
        connect_ms: timeouts.connect_ms,
        send_ms: timeouts.send_ms,
        announce,
        tls: upstream.tls.as_ref(),
        sni,
        socket: None,
    };
    // Its future is big, and requests that take an idle connection should not carry it.
    let stream = boxed(|| dial.connect(address)).await?;
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
