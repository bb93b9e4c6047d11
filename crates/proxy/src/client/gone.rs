//! Whether a client still waits for its answer.
//!
//! As in nginx, a client that ends its side of the connection counts as gone, although it may only have announced
//! that it sends nothing more (RFC 9112 section 9.6): the two look alike. The readiness that the runtime has seen is
//! enough to know; the socket is asked only when there is something to read.

use std::{
    io,
    task::{Context, Poll},
};

use super::Downstream;
use crate::{buffer, stream::Stream};

impl Downstream {
    /// Ready once the client no longer waits for its answer. Does not look past a body that is still to be read: its
    /// reader sees the end.
    pub(crate) fn poll_gone(&self, context: &mut Context<'_>) -> Poll<()> {
        if let Stream::Http2(stream) = &mut *self.stream.borrow_mut() {
            return stream.poll_gone(context);
        }
        if !self.body_ended() {
            return Poll::Pending;
        }
        while self.poll_readable(context).is_ready() {
            // The bytes may be the next request, with the end behind it.
            match self.poll_fill(context, buffer::SIZE) {
                Poll::Ready(Ok(1..)) => {}
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::OutOfMemory => {
                    // More requests than are read ahead: the end behind them is not seen.
                    return Poll::Pending;
                }
                Poll::Ready(_) => {
                    self.gone.set(true);
                    return Poll::Ready(());
                }
                Poll::Pending => {
                    self.release_buffer();
                    return Poll::Pending;
                }
            }
        }
        Poll::Pending
    }
}
