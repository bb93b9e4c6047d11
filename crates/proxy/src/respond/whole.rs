//! A body that is in memory as a whole.

use std::task::{Context, Poll};

use bytes::{Buf, Bytes};

use crate::answer::{
    body::{Body, End, Step},
    writer::Writer,
};

/// A longer rest is sent without a copy.
const SENT_WITH_HEAD_BYTES: usize = 64 * 1024;

/// The most that is sent before other connections of the worker get their turn. The kernel would take megabytes in one call,
/// which is a millisecond.
const TURN_BYTES: usize = 128 * 1024;

pub(super) struct Whole(pub(super) Bytes);

impl Body for Whole {
    /// A body at hand is also sent to a client that has ended its side.
    const FOLLOWS_CLIENT: bool = false;

    fn limit_ms(&self) -> Option<u64> {
        None
    }

    fn start(&mut self, writer: &mut Writer<'_>) -> Result<(), End> {
        if !writer.holds_head() {
            return Ok(());
        }
        let piece = self.0.split_to(self.0.len().min(SENT_WITH_HEAD_BYTES));
        writer.pass(&piece, self.0.is_empty())
    }

    fn poll_piece(
        &mut self,
        context: &mut Context<'_>,
        writer: &mut Writer<'_>,
        _room: usize,
    ) -> Result<Step, End> {
        if !self.0.is_empty() {
            if !writer.is_flushed() {
                return Ok(Step::WaitsForClient);
            }
            let piece = self.0.get(..TURN_BYTES).unwrap_or(&self.0);
            match writer.client.poll_send(context, piece, piece.len() == self.0.len()) {
                Poll::Pending => return Ok(Step::WaitsForClient),
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Err(End::Client),
                Poll::Ready(Ok(count)) => {
                    self.0.advance(count);
                    writer.count(count);
                }
            }
            if !self.0.is_empty() {
                return Ok(Step::Rests);
            }
        }
        if self.0.is_empty() {
            writer.pass(&[], true)?;
        }
        Ok(Step::Moved)
    }
}
