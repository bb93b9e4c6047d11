//! A request's body as it is read: framing removed, within its time limit and least rate.

use std::task::{Context, Poll, ready};

use plugin::{BodyError, BodyReader};

use super::{Client, Framing};
use crate::{claims, http2, stream::Stream};

impl BodyReader for Client {
    fn poll_data(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        let piece = self.poll_piece(context, out);
        if let Poll::Ready(Err(_)) = piece {
            // Nobody waits for the rest to go on with the connection.
            self.body.borrow_mut().framing = Framing::Broken;
        }
        piece
    }

    fn rewind(&self) -> bool {
        self.body.borrow().received == 0
    }
}

impl Client {
    /// The body of a stream, and its trailers after it.
    fn poll_http2_data(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        let mut stream = self.stream.borrow_mut();
        let Stream::Http2(stream) = &mut *stream else { return Poll::Ready(Ok(false)) };
        let before = out.len();
        let (settings, now_ms) = (&self.worker.settings, self.worker.deadlines.now_ms());
        let mut body = self.body.borrow_mut();
        let more = match stream.poll_data(context, out) {
            Poll::Pending if self.timer.expired() => return Poll::Ready(Err(BodyError::Timeout)),
            Poll::Pending => {
                body.pace.waits(now_ms);
                return Poll::Pending;
            }
            Poll::Ready(more) => more?,
        };
        let count = out.len() - before;
        if !body.pace.moves(count, now_ms, settings.body_rate) {
            return Poll::Ready(Err(BodyError::Timeout));
        }
        self.timer.set(settings.client_body_timeout_ms);
        body.received += count as u64;
        if more {
            return Poll::Ready(Ok(true));
        }
        if let Some(trailers) = ready!(stream.poll_trailers(context))? {
            let own = body.trailers.get_or_insert_default();
            http2::head::add_fields(own, &trailers);
            claims::clean_trailers(self.worker, own);
        }
        body.framing = Framing::Ended;
        Poll::Ready(Ok(false))
    }

    /// A piece of the body. Whoever waits for it holds no buffer: a read that brings a byte borrows one.
    fn poll_piece(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        loop {
            if let Some(more) = self.decode(out)? {
                return Poll::Ready(Ok(more));
            }
            ready!(self.poll_continue(context))?;
            if self.is_http2() {
                return self.poll_http2_data(context, out);
            }
            match self.poll_fill(context, crate::buffer::SIZE) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => {
                    self.gone.set(true);
                    return Poll::Ready(Err(BodyError::Closed));
                }
                Poll::Ready(Ok(count)) => {
                    let settings = &self.worker.settings;
                    let now_ms = self.worker.deadlines.now_ms();
                    if !self.body.borrow().pace.moves(count, now_ms, settings.body_rate) {
                        return Poll::Ready(Err(BodyError::Timeout));
                    }
                    self.timer.set(settings.client_body_timeout_ms);
                }
                Poll::Pending if self.timer.expired() => return Poll::Ready(Err(BodyError::Timeout)),
                Poll::Pending => {
                    self.release_buffer();
                    self.body.borrow().pace.waits(self.worker.deadlines.now_ms());
                    return Poll::Pending;
                }
            }
        }
    }
}
