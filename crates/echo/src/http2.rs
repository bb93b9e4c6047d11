//! HTTP/2, and gRPC over it.

use std::{io, sync::Arc};

use bytes::Bytes;
use h2::{
    RecvStream, SendStream,
    server::{Builder, SendResponse},
};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::{
    answer::{Body, EchoResponse, event},
    capture::Capture,
    options::Options,
    patience::in_time,
};

const MAX_STREAMS: u32 = 100;
const PIECE: usize = 16 * 1024;
const MAX_HEAD: u32 = 64 * 1024;

pub(crate) async fn serve<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
    stream: S,
    options: Arc<Options>,
) -> io::Result<()> {
    let mut builder = Builder::new();
    builder.max_concurrent_streams(MAX_STREAMS).max_header_list_size(MAX_HEAD);
    let mut connection = in_time(async { builder.handshake(stream).await.map_err(io::Error::other) }).await?;
    while let Some(accepted) = connection.accept().await {
        let (request, respond) = accepted.map_err(io::Error::other)?;
        let options = options.clone();
        tokio::spawn(async move {
            // A stream that its client has reset is not an error of ours.
            let _ = exchange(request, respond, &options).await;
        });
    }
    Ok(())
}

async fn exchange(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    options: &Options,
) -> io::Result<()> {
    let (parts, body) = request.into_parts();
    let field = |name| parts.headers.get(name).map(HeaderValue::as_bytes);
    let answer = EchoResponse::of(parts.uri.path().as_bytes(), field("accept"), options);
    if field("content-type").is_some_and(|kind| kind.starts_with(b"application/grpc")) {
        answer.wait().await;
        return call(&parts.headers, body, respond, options).await;
    }
    let mut capture = Capture::new(head(&parts));
    pieces(body, |piece| capture.body(piece)).await?;
    answer.wait().await;
    let status = StatusCode::from_u16(answer.status).unwrap_or_default();
    let mut response = Response::builder().status(status);
    let has_body = answer.has_body() && parts.method != http::Method::HEAD;
    if answer.has_body() {
        response = response.header("content-type", answer.content_type());
    }
    let text = capture.finish();
    response = match answer.body {
        _ if !answer.has_body() => response,
        Body::Request => response.header("content-length", text.len()),
        Body::Letters(count) => response.header("content-length", count),
        Body::Hint(hint) => response.header("content-length", hint.len()),
        Body::Events => response.header("cache-control", "no-store"),
    };
    let response = response.body(()).map_err(io::Error::other)?;
    let mut stream = respond.send_response(response, !has_body).map_err(io::Error::other)?;
    match answer.body {
        _ if !has_body => Ok(()),
        Body::Request => send(&mut stream, Bytes::from_owner(text), true).await,
        Body::Letters(count) => letters(&mut stream, count).await,
        Body::Hint(hint) => send(&mut stream, Bytes::from_static(hint.as_bytes()), true).await,
        Body::Events => events(&mut stream, options).await,
    }
}

/// As HTTP/1 would show it.
fn head(parts: &http::request::Parts) -> Vec<u8> {
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let mut text = format!("{} {target} HTTP/2\n", parts.method).into_bytes();
    if let Some(authority) = parts.uri.authority() {
        text.extend_from_slice(format!(":authority: {authority}\n").as_bytes());
    }
    for (name, value) in &parts.headers {
        for part in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\n"] {
            text.extend_from_slice(part);
        }
    }
    text.push(b'\n');
    text
}

async fn pieces(mut body: RecvStream, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    while let Some(piece) = next(&mut body).await? {
        take(&piece);
        body.flow_control().release_capacity(piece.len()).map_err(io::Error::other)?;
    }
    Ok(())
}

async fn next(body: &mut RecvStream) -> io::Result<Option<Bytes>> {
    in_time(async { body.data().await.transpose().map_err(io::Error::other) }).await
}

/// gRPC: the messages go back as they came, whatever they are.
async fn call(
    headers: &HeaderMap,
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    options: &Options,
) -> io::Result<()> {
    let kind = headers.get("content-type").cloned();
    let kind = kind.unwrap_or_else(|| HeaderValue::from_static("application/grpc"));
    let response = Response::builder().header("content-type", kind);
    let status = HeaderValue::from(u16::from(options.grpc_status));
    if options.grpc_status != 0 {
        let response = response.header("grpc-status", status).header("grpc-message", "as asked for");
        let response = response.body(()).map_err(io::Error::other)?;
        return respond.send_response(response, true).map(|_| ()).map_err(io::Error::other);
    }
    let response = response.body(()).map_err(io::Error::other)?;
    let mut stream = respond.send_response(response, false).map_err(io::Error::other)?;
    // A stream of messages may be silent for as long as its client likes.
    while let Some(piece) = body.data().await {
        let piece = piece.map_err(io::Error::other)?;
        let length = piece.len();
        send(&mut stream, piece, false).await?;
        body.flow_control().release_capacity(length).map_err(io::Error::other)?;
    }
    let trailers = HeaderMap::from_iter([(http::HeaderName::from_static("grpc-status"), status)]);
    stream.send_trailers(trailers).map_err(io::Error::other)
}

/// As the client makes room for it.
async fn send(stream: &mut SendStream<Bytes>, mut data: Bytes, is_last: bool) -> io::Result<()> {
    while !data.is_empty() {
        stream.reserve_capacity(data.len().min(PIECE));
        let room = in_time(async {
            let room = std::future::poll_fn(|context| stream.poll_capacity(context)).await;
            room.ok_or(io::ErrorKind::BrokenPipe)?.map_err(io::Error::other)
        });
        let piece = data.split_to(room.await?.min(data.len()));
        stream.send_data(piece, is_last && data.is_empty()).map_err(io::Error::other)?;
    }
    Ok(())
}

async fn letters(stream: &mut SendStream<Bytes>, mut left: u64) -> io::Result<()> {
    let piece = Bytes::from_static(&[b'x'; PIECE]);
    while left > 0 {
        let length = usize::try_from(left).unwrap_or(usize::MAX).min(PIECE);
        left -= length as u64;
        send(stream, piece.slice(..length), false).await?;
    }
    stream.send_data(Bytes::new(), true).map_err(io::Error::other)
}

async fn events(stream: &mut SendStream<Bytes>, options: &Options) -> io::Result<()> {
    for number in 1..=options.events {
        if number > 1 {
            tokio::time::sleep(options.event_interval).await;
        }
        send(stream, event(number, options).into(), false).await?;
    }
    stream.send_data(Bytes::new(), true).map_err(io::Error::other)
}
