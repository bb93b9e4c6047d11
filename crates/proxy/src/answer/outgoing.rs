//! The bytes of an answer that wait for the client.

use std::{
    io,
    task::{Context, Poll},
};

use crate::{
    buffer::LARGE,
    client::Downstream,
    read_ahead::{LEAST_BYTES, ReadAhead},
};

/// Once this many bytes are sent, the rest is moved to the front; once this much capacity is unused, it is
/// given back.
const MOVED_BYTES: usize = 16 * 1024;

pub(super) struct Outgoing {
    pub bytes: Vec<u8>,
    /// Already gone.
    sent: usize,
    /// Bytes that the upstream may send although nothing is read: the window of its stream.
    pub window: usize,
    ahead: ReadAhead,
}

/// What follows the bytes that are sent.
#[derive(Clone, Copy)]
pub(super) struct Follows {
    /// Nothing: their end ends the answer.
    pub last: bool,
    /// More at once: both may leave in one packet.
    pub more: bool,
}

impl Outgoing {
    pub(super) fn new(client: &Downstream) -> Outgoing {
        Outgoing { bytes: Vec::new(), sent: 0, window: 0, ahead: ReadAhead::new(client.held_by_connection()) }
    }

    /// Sends what there is; ready when it is gone. `took` is set when the client took something.
    pub(super) fn poll(
        &mut self,
        context: &mut Context<'_>,
        client: &Downstream,
        follows: Follows,
        took: &mut bool,
    ) -> Poll<io::Result<()>> {
        if self.bytes.is_empty() {
            return Poll::Ready(Ok(()));
        }
        while let Some(rest) = self.bytes.get(self.sent..).filter(|rest| !rest.is_empty()) {
            let polled = match follows.more {
                true => client.poll_send_more(context, rest),
                false => client.poll_send(context, rest, follows.last),
            };
            match polled {
                Poll::Pending => {
                    self.stall();
                    return Poll::Pending;
                }
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => {
                    self.sent += count;
                    *took = true;
                }
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        self.bytes.clear();
        self.sent = 0;
        self.ahead.flows();
        Poll::Ready(Ok(()))
    }

    /// Frees the memory of sent bytes, and keeps no more than the rest needs.
    fn stall(&mut self) {
        if self.sent >= MOVED_BYTES || self.sent * 2 >= self.bytes.len() {
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
        if self.bytes.capacity() > self.bytes.len() + MOVED_BYTES {
            self.bytes.shrink_to(self.bytes.len());
        }
        self.ahead.stalls(self.bytes.capacity() + self.window);
    }

    /// Adds bytes of the body.
    pub(super) fn take(&mut self, data: &[u8], client: &Downstream) {
        if self.bytes.capacity() == 0 && !data.is_empty() {
            self.bytes = client.worker.buffers.output();
        }
        self.bytes.extend_from_slice(data);
    }

    /// The client takes nothing, and nothing is here for it.
    pub(super) fn rest(&mut self, client: &Downstream) {
        if self.bytes.is_empty() {
            client.worker.buffers.give_back_output(std::mem::take(&mut self.bytes));
        }
        self.ahead.stalls(self.bytes.capacity() + self.window);
    }

    /// How much may be read from the upstream now; waits for the client where that is nothing.
    pub(crate) fn poll_room(
        &self,
        context: &mut Context<'_>,
        client: &Downstream,
        head_waits: bool,
    ) -> Poll<io::Result<usize>> {
        if head_waits {
            return Poll::Ready(Ok(LARGE));
        }
        let pending = self.bytes.len() - self.sent;
        match self.ahead.room(pending) {
            0 => Poll::Pending,
            // Only what the client has room for.
            room if pending == 0 && self.ahead.is_short() => {
                client.poll_takes(context).map_ok(|()| room.min(LEAST_BYTES))
            }
            room => Poll::Ready(Ok(room)),
        }
    }
}
