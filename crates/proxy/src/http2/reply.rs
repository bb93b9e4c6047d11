//! Sending answers on a stream.

use std::{future::poll_fn, io, task::Poll};

use bytes::Bytes;
use tidegate_plugin_api::Request;
use tidegate_protocol::{Head, ParseError};

use super::head;
use crate::{
    answer::head::{AnswerHead, ClientFraming},
    client::Client,
};

/// Sends a whole answer whose head is in `request.response`.
pub(crate) async fn send(request: &mut Request, client: &Client, framing: ClientFraming, body: &Bytes) {
    let alone = body.is_unique();
    let body: &[u8] = if framing == ClientFraming::Bodiless { &[] } else { body };
    client.answering.set(true);
    if alone {
        // Others are the configuration's, or a cache's.
        let _ = client.with_http2(|stream| {
            stream.weigh(body.len());
            Ok(())
        });
    }
    if send_head(request, client, framing, body.is_empty()).is_ok() && write(client, body).await.is_ok() {
        request.outcome.body_bytes_sent = body.len() as u64;
        request.outcome.bytes_sent = body.len() as u64 + head_bytes(request);
    }
}

/// Sends the head of an answer; `last`: nothing follows.
pub(crate) fn send_head(
    request: &Request,
    client: &Client,
    framing: ClientFraming,
    last: bool,
) -> io::Result<()> {
    let head = head::response(&AnswerHead::new(request, client.worker, framing, true));
    client.with_http2(|stream| stream.send_head(head, last))
}

/// The answer to an extended CONNECT (RFC 8441 section 5): what in HTTP/1 is a 101.
pub fn start_tunnel(request: &mut Request, client: &Client) -> io::Result<()> {
    request.response.set_status(200);
    request.response.headers.remove("Sec-WebSocket-Accept");
    request.response.headers.remove("Content-Length");
    send_head(request, client, ClientFraming::Frames, false)
}

/// About what the head takes on the wire: what HPACK makes of it is the connection's.
pub fn head_bytes(request: &Request) -> u64 {
    let fields = request.response.headers.iter();
    fields.map(|(name, value)| name.len() + value.len()).sum::<usize>() as u64 + 9
}

/// Ends the answer, with trailers if there are any.
pub fn end(client: &Client, trailers: &Head) -> io::Result<()> {
    let trailers = if trailers.is_empty() { None } else { head::trailers(trailers) };
    client.with_http2(|stream| stream.end(trailers))
}

/// Answers what is not a valid request. Returns the bytes of the answer and of its body, about as HTTP/1 would have them.
pub async fn refuse(client: &Client, error: ParseError) -> (u64, u64) {
    let (head, body) = head::page(client.worker, error.status);
    let head_fields = head.headers().clone();
    client.answering.set(true);
    if client.with_http2(|stream| stream.send_head(head, false)).is_ok() {
        // A client that does not read its error page has nothing more to lose.
        let _ = write(client, &body).await;
        let fields = head_fields.iter().map(|(name, value)| name.as_str().len() + value.len());
        let head_bytes = fields.sum::<usize>() + 9;
        return ((body.len() + head_bytes) as u64, body.len() as u64);
    }
    (0, 0)
}

async fn write(client: &Client, body: &[u8]) -> io::Result<()> {
    client.timer.set(client.worker.settings.send_timeout_ms);
    let mut sent = 0;
    poll_fn(|context| {
        while let Some(rest) = body.get(sent..).filter(|rest| !rest.is_empty()) {
            match client.poll_send(context, rest, true) {
                Poll::Pending if client.timer.expired() => {
                    return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                }
                Poll::Pending => return Poll::Pending,
                Poll::Ready(Ok(count)) => {
                    sent += count;
                    client.timer.set(client.worker.settings.send_timeout_ms);
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    })
    .await?;
    client.with_http2(|stream| stream.end(None))
}
