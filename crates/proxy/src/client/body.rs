//! A request's body as it is read: framing removed, within its time limit and least rate.

use std::task::{Context, Poll, ready};

use tidegate_plugin_api::{BodyError, BodyReader};
use tidegate_protocol::Head;

use super::{BodyState, Downstream, Framing, unreadable};
use crate::{http2, pace::LeastRate, stream::Stream};

/// Trailers are read as a whole: a little beyond the buffer, so that trailers that exceed the limit are
/// noticed.
const TRAILERS_MORE: usize = 1024;

fn too_slow(held: bool) -> BodyError {
    if held {
        tidegate_plugin_api::memory::count_slow();
    }
    BodyError::Timeout
}

impl BodyReader for Downstream {
    fn poll_data(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        let piece = self.poll_piece(context, out);
        if let Poll::Ready(Err(_)) = piece {
            // The rest is not drained: the connection is not reused.
            self.incoming.borrow_mut().body.framing = Framing::Broken;
        }
        piece
    }

    fn holds(&self) {
        self.incoming.borrow_mut().body.held = true;
        self.timer.set(self.body_timeout_ms(true));
    }

    fn visit_trailers(&self, visit: &mut dyn FnMut(&mut Head)) {
        if let Some(trailers) = &mut self.incoming.borrow_mut().body.trailers {
            visit(trailers);
        }
    }

    fn rewind(&self) -> bool {
        self.incoming.borrow().body.received == 0
    }
}

impl Downstream {
    /// A client that is silent while its body is held gets no more time than one that trickles.
    fn body_timeout_ms(&self, held: bool) -> u64 {
        let settings = &self.worker.settings;
        let timeout_ms = settings.client_body_timeout_ms;
        match settings.held_body_rate {
            least if held && least.bytes_per_second > 0 => timeout_ms.min(least.window_ms.max(1)),
            _ => timeout_ms,
        }
    }

    /// Restarts the time limit: the body is waited for again, after a wait for something else.
    pub(crate) fn has_time_for_body(&self) {
        let held = self.incoming.borrow().body.held;
        self.timer.set(self.body_timeout_ms(held));
    }

    /// The least rate at which a client has to send its body, part of which may be held.
    fn body_rate(&self, held: bool) -> LeastRate {
        let settings = &self.worker.settings;
        if held && settings.held_body_rate.bytes_per_second > settings.body_rate.bytes_per_second {
            settings.held_body_rate
        } else {
            settings.body_rate
        }
    }

    /// No bytes of the body are here yet. Its time limit begins with the first wait for it: what remains of the head's
    /// limit does not count.
    fn wait_for_more(&self, body: &mut BodyState) -> Result<(), BodyError> {
        if !std::mem::replace(&mut body.waited, true) {
            self.timer.set(self.body_timeout_ms(body.held));
        } else if self.timer.expired() {
            return Err(too_slow(body.held));
        }
        body.pace.waits(self.worker.deadlines.now_ms());
        Ok(())
    }

    /// The body of a stream, and its trailers after it.
    fn poll_http2_data(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        let mut stream = self.stream.borrow_mut();
        let Stream::Http2(stream) = &mut *stream else { return Poll::Ready(Ok(false)) };
        let before = out.len();
        let now_ms = self.worker.deadlines.now_ms();
        let body = &mut self.incoming.borrow_mut().body;
        let more = match stream.poll_data(context, out) {
            Poll::Pending => {
                self.wait_for_more(body)?;
                return Poll::Pending;
            }
            Poll::Ready(more) => more?,
        };
        let count = out.len() - before;
        if !body.pace.moves(count, now_ms, self.body_rate(body.held)) {
            return Poll::Ready(Err(too_slow(body.held)));
        }
        self.timer.set(self.body_timeout_ms(body.held));
        body.received += count as u64;
        if more {
            return Poll::Ready(Ok(true));
        }
        if let Some(trailers) = ready!(stream.poll_trailers(context))? {
            let own = body.trailers.get_or_insert_default();
            http2::head::add_trailers(own, &trailers).map_err(unreadable)?;
            crate::clean_trailers::clean_trailers(self.worker, own);
        }
        body.framing = Framing::Ended;
        Poll::Ready(Ok(false))
    }

    /// A piece of the body. A waiting reader holds no buffer: a read that yields a byte borrows one.
    fn poll_piece(&self, context: &mut Context<'_>, out: &mut Vec<u8>) -> Poll<Result<bool, BodyError>> {
        loop {
            if let Some(more) = self.decode(out)? {
                return Poll::Ready(Ok(more));
            }
            ready!(self.poll_continue(context))?;
            if self.is_http2() {
                return self.poll_http2_data(context, out);
            }
            match self.poll_fill(context, crate::buffer::SIZE + TRAILERS_MORE) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => {
                    self.gone.set(true);
                    return Poll::Ready(Err(BodyError::Closed));
                }
                Poll::Ready(Ok(count)) => {
                    let body = &self.incoming.borrow().body;
                    let now_ms = self.worker.deadlines.now_ms();
                    if !body.pace.moves(count, now_ms, self.body_rate(body.held)) {
                        return Poll::Ready(Err(too_slow(body.held)));
                    }
                    self.timer.set(self.body_timeout_ms(body.held));
                }
                Poll::Pending => {
                    self.wait_for_more(&mut self.incoming.borrow_mut().body)?;
                    self.release_buffer();
                    return Poll::Pending;
                }
            }
        }
    }
}
