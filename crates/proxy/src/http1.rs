//! Answers as text of HTTP/1.

use std::task::{Context, Poll, ready};

use tidegate_plugin_api::{BodyError, Response};
use tidegate_protocol::{HeaderId, status};

use crate::{
    answer::head::{AnswerHead, write_page_fields},
    field_line::{Fields, Http1Lines},
    runtime::Runtime,
    stream::Stream,
};

/// Appends the head of an answer; returns its length.
pub(crate) fn write_head(worker: &Runtime, head: &AnswerHead<'_>, out: &mut Vec<u8>) -> u64 {
    if out.capacity() == 0 {
        *out = worker.buffers.output();
    }
    let before = out.len();
    status::write_status_line(out, head.response.status, &head.response.reason);
    head.write_fields(&mut Http1Lines(out));
    out.extend_from_slice(b"\r\n");
    (out.len() - before) as u64
}

/// Appends the head of a page where no request was parsed; returns its length.
pub(crate) fn start_page(worker: &Runtime, code: u16, body: &str, out: &mut Vec<u8>) -> u64 {
    status::write_status_line(out, code, b"");
    write_page_fields(worker, body.len(), &mut Http1Lines(out));
    out.extend_from_slice(b"\r\n");
    out.len() as u64
}

pub(crate) fn poll_send_continue(
    stream: &mut Stream,
    context: &mut Context<'_>,
) -> Poll<Result<(), BodyError>> {
    // 25 bytes into an empty send buffer: it takes them whole or the connection is gone.
    let line = b"HTTP/1.1 100 Continue\r\n\r\n";
    let written = ready!(stream.poll_write(context, line));
    Poll::Ready(if written.ok() == Some(line.len()) { Ok(()) } else { Err(BodyError::Closed) })
}

/// Appends the head after which the connection is a tunnel.
pub(crate) fn write_tunnel_head(worker: &Runtime, response: &Response, out: &mut Vec<u8>) {
    status::write_status_line(out, 101, &response.reason);
    let mut date = false;
    response.headers.write_fields(out, |field| match field.id {
        HeaderId::Connection | HeaderId::KeepAlive | HeaderId::TransferEncoding | HeaderId::ContentLength => {
            false
        }
        HeaderId::Date => {
            date = true;
            true
        }
        _ => true,
    });
    let mut lines = Http1Lines(out);
    if response.headers.known(HeaderId::Server).is_none() {
        lines.add_line(&worker.server_line);
    }
    if !date {
        lines.add_line(&worker.date_line.borrow());
    }
    out.extend_from_slice(b"Connection: upgrade\r\n\r\n");
}
