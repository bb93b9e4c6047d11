//! Answers that the gateway makes itself: a plugin's, an error page, its own API's.

mod file;
mod whole;

use std::sync::Arc;

use bytes::Bytes;
use tidegate_plugin_api::{
    BodyChunk, BodyError, FileBody, Reply, Request, RequestBody, Source,
    reply::{FINAL_STATUSES, ReplyBody},
};
use tidegate_protocol::{BodyLength, HeaderId, Method};
use tidegate_telemetry::error_log;
use tokio::task::JoinError;

use crate::{
    Internal, InternalHead, InternalResponse,
    answer::{
        Sent,
        head::{self, ClientFraming},
        writer::{Frame, Writer},
    },
    client::Downstream,
    filters, page,
    persistence::client_persists,
    phases::{Passed, RequestChains},
};
use file::InFile;
use whole::Whole;

/// Bodies up to this size are read and dropped to keep the connection.
const DRAINED_BODY_BYTES: usize = 64 * 1024;

/// nginx's status for "close without an answer", which plugins can be configured to reject with.
const NO_ANSWER: u16 = 444;

enum Body {
    Whole(Bytes),
    File(Box<FileBody>),
}

/// Sends a reply through header and body filters. Returns whether the connection can be reused.
pub(crate) async fn send(
    request: &mut Request,
    client: &Downstream,
    chains: &RequestChains,
    reply: Reply,
) -> bool {
    let reply = ending(request.remade(reply));
    if client.gone.get() || (reply.status == NO_ANSWER && matches!(reply.body, ReplyBody::Page)) {
        fill_response(request, reply);
        return false;
    }
    let mut body = match fill_response(request, reply) {
        Body::Whole(bytes) => bytes,
        // Boxed: most answers do not need a future of this size.
        Body::File(body) => return Box::pin(send_file(request, client, chains, *body)).await,
    };
    if let Err(status) = filters::header_filter(request, client, chains) {
        return instead(request, client, status).await;
    }
    if chains.has_body_filter() {
        body = match filter_body(request, chains, body).await {
            Ok(filtered) => filtered,
            Err(status) => refusal(request, status),
        };
    }
    put(request, client, body).await
}

/// Sends an error page in place of an answer of which nothing is out yet. Returns whether the connection can be reused.
pub(crate) async fn instead(request: &mut Request, client: &Downstream, status: u16) -> bool {
    let body = refusal(request, status);
    put(request, client, body).await
}

/// Puts the page of a failure into `request.response`; returns its body.
fn refusal(request: &mut Request, status: u16) -> Bytes {
    // An upstream's error status stays true; only its body cannot be shown.
    let status = if request.response.status >= 400 { request.response.status } else { status };
    match fill_response(request, Reply::page(status)) {
        Body::Whole(page) => page,
        Body::File(_) => Bytes::new(),
    }
}

/// Concludes an answer once the writer is done: with an error page, where nothing of the answer is out. Returns whether the
/// connection can be reused.
pub(crate) async fn conclude(request: &mut Request, client: &Downstream, sent: Sent) -> bool {
    match sent.page() {
        Some(status) => Box::pin(instead(request, client, status)).await,
        None => sent.keeps(),
    }
}

/// Sends an answer whose head is in `request.response`.
async fn put(request: &mut Request, client: &Downstream, body: Bytes) -> bool {
    // Whatever the filters did, the body is whole here: its length is known.
    request.response.body_changed = false;
    request.response.head_waits = false;
    let frame = frame(request, client, body.len() as u64).await;
    let bodiless = frame.framing == ClientFraming::Bodiless;
    if body.is_unique() {
        // Other bodies belong to the configuration, or to a cache.
        client.weigh(body.len());
    }
    let mut whole = Whole(if bodiless { Bytes::new() } else { body });
    Writer::begin(request, client, None, frame).run(&mut whole).await.keeps()
}

async fn send_file(
    request: &mut Request,
    client: &Downstream,
    chains: &RequestChains,
    mut body: FileBody,
) -> bool {
    if let Err(status) = filters::header_filter(request, client, chains) {
        return instead(request, client, status).await;
    }
    let frame = frame(request, client, body.length()).await;
    if frame.framing == ClientFraming::Bodiless {
        body.parts.clear();
    }
    let is_framed = matches!(frame.framing, ClientFraming::Length(_) | ClientFraming::Close);
    let is_direct = is_framed && !chains.has_body_filter() && client.sends_files();
    let mut body = InFile::new(body, is_direct, client.worker.settings.send_timeout_ms);
    let sent = Writer::begin(request, client, Some(chains), frame).run(&mut body).await;
    conclude(request, client, sent).await
}

/// The framing of an answer that the gateway itself makes. The rest of a short request is read and dropped, so that the
/// connection can be reused.
async fn frame(request: &mut Request, client: &Downstream, length: u64) -> Frame {
    let framing = head::framing(request, BodyLength::Fixed(length), false);
    let response = &mut request.response;
    // The length that a GET would have. The length of the body that a 304 omits is not known here.
    if request.head.method == Method::Head
        && response.status != 304
        && !response.body_changed
        && !response.omits_length
        && !response.headers.contains("Content-Length")
    {
        response.headers.set("Content-Length", length.to_string());
    }
    let keep = client_persists(request, client)
        && framing != ClientFraming::Close
        && client.clear_way(DRAINED_BODY_BYTES).await;
    Frame { framing, is_empty: length == 0, keep }
}

/// An interim status would leave the client waiting for the answer.
fn ending(reply: Reply) -> Reply {
    if FINAL_STATUSES.contains(&reply.status) {
        return reply;
    }
    error_log::log(
        error_log::Level::Error,
        format_args!("{} is not a final status; sending 500", reply.status),
    );
    Reply::page(500)
}

/// How much of a rebuilt body the body filters take at once: less than a millisecond of work.
const REMADE_STEP: usize = 256 << 10;

/// Runs the body through the body filters; in steps if they want that, and other tasks get their turn in between. `Err`: the
/// status of the page that replaces the answer.
async fn filter_body(request: &mut Request, chains: &RequestChains, mut body: Bytes) -> Result<Bytes, u16> {
    let mut filtered = Vec::new();
    let mut from = 0;
    let mut step = request.response.body_step();
    loop {
        let mut at = 0usize;
        let maker = loop {
            let end = body.len().min(at.saturating_add(step));
            let piece = if end - at == body.len() {
                Vec::from(std::mem::take(&mut body))
            } else {
                body.get(at..end).unwrap_or_default().to_vec()
            };
            let mut chunk = BodyChunk::new(piece, end >= body.len());
            let passed = chains.body_filter(request, &mut chunk, from);
            match passed {
                Passed::Refused(status) => return Err(status),
                Passed::Waits(maker) => break Some(maker),
                Passed::Through if filtered.is_empty() => filtered = chunk.data,
                Passed::Through => filtered.extend_from_slice(&chunk.data),
            }
            if chunk.last {
                break None;
            }
            at = end;
            tokio::task::yield_now().await;
        };
        let Some(maker) = maker else { return Ok(filtered.into()) };
        body = Box::pin(chains.whole_body(request, maker)).await?;
        from = maker + 1;
        if filtered.is_empty() && !chains.has_body_filter_from(from) {
            return Ok(body);
        }
        step = step.min(REMADE_STEP);
    }
}

/// Puts status and headers into `request.response`; returns the body.
fn fill_response(request: &mut Request, reply: Reply) -> Body {
    let response = &mut request.response;
    response.clear();
    response.status = reply.status;
    response.headers = reply.headers;
    let has_type = response.headers.known(HeaderId::ContentType).is_some();
    response.omits_length = matches!(reply.body, ReplyBody::OfHead);
    Body::Whole(match reply.body {
        ReplyBody::File(body) => return Body::File(body),
        ReplyBody::Page if reply.status < 300 => Bytes::new(),
        ReplyBody::Page => {
            response.source = Source::ErrorPage;
            if !has_type {
                response.headers.set("Content-Type", "text/html; charset=utf-8");
            }
            page::of_status(reply.status).into()
        }
        ReplyBody::OfHead => Bytes::new(),
        ReplyBody::Bytes(body) => {
            // A 304 does not describe the body that the client already has.
            if !has_type && reply.status != 304 {
                response.headers.set("Content-Type", "text/plain; charset=utf-8");
            }
            body
        }
    })
}

/// The request that panicked gets 500 if nothing of an answer is out yet.
pub(crate) async fn after_panic(client: &Downstream) {
    if client.answering.get() {
        return;
    }
    // Boxed: the future of this function is part of every connection's task.
    Box::pin(client.refuse(500, &page::of_status(500))).await;
}

/// Hands a request to the gateway's own API, which answers on the control runtime: first the head, and if that is
/// admitted, the body.
pub(crate) async fn internal(request: &mut Request, api: Arc<dyn Internal>) -> Box<Reply> {
    let Some(host) = tidegate_plugin_api::host() else { return Box::new(Reply::page(503)) };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let head = InternalHead {
        method: text(request.head.method.as_bytes()),
        target: text(request.head.target()),
        headers: request.head.headers.iter().map(|(name, value)| (text(name), text(value))).collect(),
        peer: request.remote_addr,
        socket: request.connection.peer.ip(),
    };
    let call = match host.background.spawn(async move { api.enter(head) }).await {
        Ok(Ok(call)) => call,
        Ok(Err(refused)) => return internal_reply(refused),
        Err(error) => return internal_failed(&error),
    };
    let limit = call.body_limit();
    let announced = match &request.body {
        RequestBody::Unread { length, .. } => *length,
        _ => None,
    };
    let body = match request.body.collect(limit, request.remote_addr).await {
        Ok(body) => Ok(body),
        Err(BodyError::TooLarge) => Err(announced.unwrap_or(limit as u64 + 1)),
        Err(error) => return error.into(),
    };
    match host.background.spawn(call.answer(body)).await {
        Ok(answer) => internal_reply(answer),
        Err(error) => internal_failed(&error),
    }
}

fn internal_reply(answer: InternalResponse) -> Box<Reply> {
    let mut reply = Reply::bytes(answer.status, answer.body);
    for (name, value) in &answer.headers {
        reply.headers.add(name, value);
    }
    Box::new(reply)
}

fn internal_failed(error: &JoinError) -> Box<Reply> {
    error_log::log(error_log::Level::Error, format_args!("admin request failed: {error}"));
    Box::new(Reply::page(500))
}
