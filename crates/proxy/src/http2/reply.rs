//! Answers on an HTTP/2 stream.

use std::io;

use tidegate_plugin_api::{Request, Response};
use tidegate_protocol::Head;

use super::{head, stream::Http2Stream};
use crate::{
    answer::head::{AnswerHead, ClientFraming},
    runtime::Runtime,
};

/// Sends the head of an answer; `last`: nothing follows. Returns roughly its size on the wire: the effect of HPACK depends
/// on the connection.
pub(crate) fn send_head(stream: &mut Http2Stream, head: &AnswerHead<'_>, last: bool) -> u64 {
    // A client that is gone shows when the body is sent.
    let _ = stream.send_head(head::response(head), last);
    head_bytes(head.response)
}

fn head_bytes(response: &Response) -> u64 {
    let lengths = response.headers.iter().map(|(name, value)| name.len() + value.len());
    lengths.sum::<usize>() as u64 + FRAME_BYTES
}

/// The header of a frame.
const FRAME_BYTES: u64 = 9;

/// Ends the answer, with trailers if there are any.
pub(crate) fn end(stream: &mut Http2Stream, trailers: &Head) -> io::Result<()> {
    let trailers = if trailers.is_empty() { None } else { head::trailers(trailers) };
    stream.end(trailers)
}

/// The answer to an extended CONNECT (RFC 8441 section 5): what in HTTP/1 is a 101.
pub(crate) fn start_tunnel(
    stream: &mut Http2Stream,
    worker: &Runtime,
    request: &mut Request,
) -> io::Result<()> {
    request.response.set_status(200);
    request.response.headers.remove("Sec-WebSocket-Accept");
    request.response.headers.remove("Content-Length");
    let head = AnswerHead::new(request, worker, ClientFraming::Frames, true);
    stream.send_head(head::response(&head), false)
}

/// Sends the head of a page for what is not a valid request; returns about its length, as HTTP/1 would have it, and the body.
pub(crate) fn start_page(stream: &mut Http2Stream, worker: &Runtime, status: u16, body: &str) -> u64 {
    let head = head::page(worker, status, body.len());
    let lengths = head.headers().iter().map(|(name, value)| name.as_str().len() + value.len());
    let head_bytes = lengths.sum::<usize>() as u64 + FRAME_BYTES;
    // A client that is gone shows when the body is sent.
    let _ = stream.send_head(head, false);
    head_bytes
}
