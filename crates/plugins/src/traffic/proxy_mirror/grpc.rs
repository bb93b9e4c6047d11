//! Copies of gRPC calls: HTTP/2 from the first byte (`grpc://`) or agreed on in the handshake (`grpcs://`), a connection
//! for each, as nginx's mirror opens one for each.

use std::{future::poll_fn, pin::Pin, sync::Arc};

use bytes::Bytes;
use h2::{RecvStream, SendStream, client};
use http::{HeaderName, HeaderValue, Request, Uri, Version};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tidegate_clients::{
    http::{Endpoint, Method, TlsWanted, tls_config},
    names,
};
use tidegate_plugin_api::{
    descriptors,
    hops::{self, SideRequestAction, Ticket},
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

trait Io: AsyncRead + AsyncWrite + Unpin {}

impl<T: AsyncRead + AsyncWrite + Unpin> Io for T {}

pub(super) struct Call {
    pub endpoint: Endpoint,
    /// `None`: in clear.
    pub tls: Option<Arc<ClientConfig>>,
    pub method: Method,
    pub authority: Vec<u8>,
    pub headers: Vec<(String, Vec<u8>)>,
    pub body: Bytes,
}

/// The handshake of `grpcs://`. nginx does not verify what it mirrors to either.
pub(super) fn tls() -> Result<Arc<ClientConfig>, String> {
    let mut config = (*tls_config(&TlsWanted { verify: false, ..TlsWanted::default() })?).clone();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(Arc::new(config))
}

/// Without a time limit: the caller has one.
pub(super) async fn send(mut call: Call) -> Result<(), String> {
    let (stream, _ticket) = connect(&mut call).await?;
    let failed = |error: h2::Error| format!("{}:{}: {error}", call.endpoint.host, call.endpoint.port);
    let (requests, connection) = client::handshake(stream).await.map_err(failed)?;
    let head = head(&call)?;
    tokio::select! {
        // The connection's own task, as it were: it ends only with an error or after the call.
        ended = connection => ended.map_err(failed),
        answered = exchange(requests, head, call.body.clone()) => answered.map_err(failed),
    }
}

async fn connect(call: &mut Call) -> Result<(Pin<Box<dyn Io>>, Option<Ticket>), String> {
    let Endpoint { host, port, .. } = &call.endpoint;
    let stream = names::connect(host, *port)
        .await
        .and_then(descriptors::spared)
        .map_err(|error| format!("failed to connect to {host}:{port}: {error}"))?;
    let _ = stream.set_nodelay(true);
    let ticket = mark(&mut call.headers, &stream)?;
    let Some(tls) = call.tls.clone() else { return Ok((Box::pin(stream), ticket)) };
    let name = ServerName::try_from(host.clone()).map_err(|error| format!("{host}: {error}"))?;
    let stream = tidegate_tls::connect(tls, name, stream)
        .await
        .map_err(|error| format!("TLS handshake with {host}:{port} failed: {error}"))?;
    Ok((Box::pin(stream), ticket))
}

fn mark(headers: &mut Vec<(String, Vec<u8>)>, stream: &TcpStream) -> Result<Option<Ticket>, String> {
    let (peer, local) = stream
        .peer_addr()
        .and_then(|peer| Ok((peer, stream.local_addr()?)))
        .map_err(|error| error.to_string())?;
    let is_loop = |name: &str| name.eq_ignore_ascii_case("cdn-loop");
    let there = headers.iter().filter(|(name, _)| is_loop(name)).map(|(_, value)| value.as_slice());
    let marked = match hops::side_request_action(peer, local, there) {
        SideRequestAction::Free => return Ok(None),
        SideRequestAction::Marked(marked) => marked,
        SideRequestAction::Round => return Err("it would loop".to_owned()),
    };
    headers.retain(|(name, _)| !is_loop(name));
    headers.push(("cdn-loop".to_owned(), marked.value));
    Ok(marked.ticket)
}

fn head(call: &Call) -> Result<Request<()>, String> {
    let invalid = |error: http::Error| format!("cannot be sent as HTTP/2: {error}");
    let authority = String::from_utf8_lossy(&call.authority);
    let scheme = if call.tls.is_some() { "https" } else { "http" };
    let uri = Uri::builder()
        .scheme(scheme)
        .authority(&*authority)
        .path_and_query(&*call.endpoint.target)
        .build()
        .map_err(invalid)?;
    let mut head = Request::builder().method(call.method.clone()).uri(uri).version(Version::HTTP_2);
    for (name, value) in &call.headers {
        let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_bytes(value))
        else {
            continue;
        };
        head = head.header(name, value);
    }
    head.header("te", "trailers").body(()).map_err(invalid)
}

async fn exchange(
    requests: client::SendRequest<Bytes>,
    head: Request<()>,
    body: Bytes,
) -> Result<(), h2::Error> {
    let mut requests = requests.ready().await?;
    let (response, sending) = requests.send_request(head, body.is_empty())?;
    send_body(sending, body).await?;
    drain(response.await?.into_body()).await
}

/// No more than the other side has room for is handed over at a time.
async fn send_body(mut sending: SendStream<Bytes>, mut body: Bytes) -> Result<(), h2::Error> {
    while !body.is_empty() {
        sending.reserve_capacity(body.len());
        let Some(room) = poll_fn(|context| sending.poll_capacity(context)).await else { return Ok(()) };
        let piece = body.split_to(room?.min(body.len()));
        sending.send_data(piece, body.is_empty())?;
    }
    Ok(())
}

/// The answer is read to its end, so that the mirror sees a call that went well, and forgotten.
async fn drain(mut answer: RecvStream) -> Result<(), h2::Error> {
    while let Some(data) = answer.data().await {
        let length = data?.len();
        answer.flow_control().release_capacity(length)?;
    }
    answer.trailers().await.map(|_| ())
}
