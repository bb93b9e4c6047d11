//! TLS toward the upstream.

use std::{future::poll_fn, pin::pin, task::Poll};

use rustls_pki_types::ServerName;
use tidegate_plugin_api::upstream::{Timeouts, TlsClient};
use tokio::net::TcpStream;

use super::failure::FailureKind;
use crate::{client::Downstream, stream::Stream};

pub(super) async fn handshake(
    client: &Downstream,
    stream: TcpStream,
    settings: &TlsClient,
    sni: &[u8],
    timeouts: Timeouts,
) -> Result<Stream, FailureKind> {
    let name = server_name(sni).unwrap_or_else(|| {
        let address = stream.peer_addr().map_or(std::net::Ipv4Addr::LOCALHOST.into(), |address| address.ip());
        ServerName::IpAddress(address.into())
    });
    client.timer.set(timeouts.connect_ms);
    let mut handshake = pin!(tidegate_tls::connect(settings.config.clone(), name, stream));
    let done = poll_fn(|context| match handshake.as_mut().poll(context) {
        Poll::Pending if client.timer.expired() => Poll::Ready(None),
        other => other.map(Some),
    })
    .await;
    match done {
        None => Err(FailureKind::ConnectTimeout),
        Some(Err(error)) => Err(FailureKind::Connect(error)),
        Some(Ok(stream)) => Ok(Stream::Tls(Box::new(stream.into()))),
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
