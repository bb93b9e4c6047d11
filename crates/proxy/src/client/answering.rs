//! How an answer is written in the client's protocol: its head, its end, and what replaces an answer. The only place on the
//! way out that asks for the protocol.

use std::{
    io,
    task::{Context, Poll},
};

use tidegate_plugin_api::{BodyError, Request};
use tidegate_protocol::Head;

use super::Downstream;
use crate::{answer::head::AnswerHead, http1, http2, stream::Stream};

impl Downstream {
    /// Sends the head of an answer, or appends it to `out`, with which the first bytes of the body leave. `last`: nothing
    /// follows. Returns how many bytes it takes.
    pub(crate) fn send_head(&self, head: &AnswerHead<'_>, last: bool, out: &mut Vec<u8>) -> u64 {
        match &mut *self.stream.borrow_mut() {
            // A client that is gone shows when its body is sent.
            Stream::Http2(stream) => http2::reply::send_head(stream, head, last),
            _ => http1::write_head(self.worker, head, out),
        }
    }

    /// Ends an answer after all of it has been sent.
    pub(crate) fn poll_end(&self, context: &mut Context<'_>, trailers: &Head) -> Poll<io::Result<()>> {
        match &mut *self.stream.borrow_mut() {
            Stream::Http2(stream) => Poll::Ready(http2::reply::end(stream, trailers)),
            // The framing shows the end, but TLS may hold back records.
            other => other.poll_flush(context),
        }
    }

    /// The interim answer that a client waits for before it sends its body.
    pub(super) fn poll_send_continue(&self, context: &mut Context<'_>) -> Poll<Result<(), BodyError>> {
        match &mut *self.stream.borrow_mut() {
            // A client that is gone shows when its body is read.
            Stream::Http2(stream) => {
                let _ = stream.send_continue();
                Poll::Ready(Ok(()))
            }
            other => http1::poll_send_continue(other, context),
        }
    }

    /// Ends an incomplete answer with an error, so that it does not look complete. An HTTP/1 connection is
    /// closed.
    pub(crate) fn give_up(&self) {
        if let Stream::Http2(stream) = &mut *self.stream.borrow_mut() {
            stream.reset(h2::Reason::INTERNAL_ERROR);
        }
    }

    /// Counts bytes of an answer that are held for this client alone.
    pub(crate) fn weigh(&self, bytes: usize) {
        if let Stream::Http2(stream) = &*self.stream.borrow() {
            stream.weigh(bytes);
        }
    }

    /// Reads and drops up to `limit` bytes of the request that precede the next one. Returns whether there can be a next
    /// one.
    pub(crate) async fn clear_way(&self, limit: usize) -> bool {
        let is_free = self.body_ended() || self.is_http2();
        is_free || self.drain_body(limit).await
    }

    /// Sends the page of a status where no request could be parsed; the connection ends with it. Returns the
    /// bytes of the answer and of its body; none when the client is gone.
    pub(crate) async fn refuse(&self, status: u16, body: &str) -> (u64, u64) {
        let mut out = self.worker.buffers.output();
        let head_bytes = match &mut *self.stream.borrow_mut() {
            Stream::Http2(stream) => http2::reply::start_page(stream, self.worker, status, body),
            _ => http1::start_page(self.worker, status, body, &mut out),
        };
        out.extend_from_slice(body.as_bytes());
        self.answering.set(true);
        let sent = self.write(&out).await;
        self.worker.buffers.give_back_output(out);
        if sent.is_err() || self.end_page().is_err() {
            return (0, 0);
        }
        (head_bytes + body.len() as u64, body.len() as u64)
    }

    fn end_page(&self) -> io::Result<()> {
        match &mut *self.stream.borrow_mut() {
            Stream::Http2(stream) => stream.end(None),
            _ => Ok(()),
        }
    }

    /// Sends the head that begins a tunnel; `Err`: the client is gone. Returns the bytes of the head.
    pub(crate) async fn start_tunnel(&self, request: &mut Request) -> Result<u64, ()> {
        self.answering.set(true);
        let mut out = Vec::with_capacity(512);
        match &mut *self.stream.borrow_mut() {
            Stream::Http2(stream) => {
                http2::reply::start_tunnel(stream, self.worker, request).map_err(|_| ())?;
            }
            _ => http1::write_tunnel_head(self.worker, &request.response, &mut out),
        }
        self.write(&out).await?;
        Ok(out.len() as u64)
    }
}
