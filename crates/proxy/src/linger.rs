//! The end of a connection whose client may still be sending (RFC 9112 section 9.6).
//!
//! The kernel answers bytes that were not read, or that arrive after the close, with RST, which discards the part of
//! the answer that the client has not read yet. So our side ends first, and what arrives is read and dropped until the
//! client ends too. Clients that do not end are bounded: in time, in bytes, and in number.

use std::{
    cell::{Cell, RefMut},
    future::poll_fn,
    io,
    task::{Context, Poll, ready},
};

use crate::{runtime::Runtime, stream::Stream, timers::Timer};

/// Since the client's last byte.
const QUIET_MS: u64 = 5_000;
pub(crate) const TOTAL_MS: u64 = 30_000;
/// A shorter limit: for a process that exits, and for HTTP/2, whose GOAWAY has had its time.
pub(crate) const SHORT_MS: u64 = 2_000;
/// Read and dropped. What comes beyond stays unread for [`HOLD_MS`], so that the client sees its answer meanwhile.
pub(super) const DROPPED_BYTES: usize = 4 << 20;
const HOLD_MS: u64 = 1_000;
/// Connections of a worker that linger at the same time; further ones close at once.
const MOST: u32 = 1_024;

/// A place among the lingering connections.
pub(super) struct LingerPermit<'a>(&'a Cell<u32>);

impl LingerPermit<'_> {
    pub(super) fn take(worker: &Runtime) -> Option<LingerPermit<'_>> {
        let count = &worker.lingering;
        if count.get() >= MOST {
            return None;
        }
        count.set(count.get() + 1);
        Some(LingerPermit(count))
    }
}

impl Drop for LingerPermit<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get().saturating_sub(1));
    }
}

/// Ends our side of a stream and waits for the other end, for `total_ms` at most. `timer` wakes the calling task.
pub(crate) async fn linger<'a>(
    worker: &Runtime,
    timer: &Timer,
    total_ms: u64,
    stream: impl Fn() -> RefMut<'a, Stream>,
) {
    let Some(_place) = LingerPermit::take(worker) else { return };
    let now_ms = || worker.deadlines.now_ms();
    let until_ms = now_ms().saturating_add(total_ms);
    let quiet_ms = || QUIET_MS.min(until_ms.saturating_sub(now_ms()));
    timer.set(quiet_ms());
    let ended = poll_fn(|context| match stream().poll_shutdown(context) {
        Poll::Pending if timer.expired() => Poll::Ready(Err(io::ErrorKind::TimedOut.into())),
        other => other,
    });
    if ended.await.is_err() {
        return;
    }
    let mut dropped = 0;
    while dropped < DROPPED_BYTES {
        let read = poll_fn(|context| match poll_drop(worker, &mut stream(), context) {
            Poll::Pending if timer.expired() => Poll::Ready(Ok(0)),
            other => other,
        });
        match read.await {
            Ok(count @ 1..) if now_ms() < until_ms => dropped += count,
            _ => return,
        }
        timer.set(quiet_ms());
    }
    timer.set(HOLD_MS);
    poll_fn(|_| if timer.expired() { Poll::Ready(()) } else { Poll::Pending }).await;
}

fn poll_drop(worker: &Runtime, stream: &mut Stream, context: &mut Context<'_>) -> Poll<io::Result<usize>> {
    ready!(stream.poll_readable(context))?;
    // Most clients send nothing more: memory of one's own would be cleared for an end of file.
    let mut buffer = worker.buffers.input();
    let dropped = stream.poll_read_raw(context, buffer.room(0));
    worker.buffers.give_back(buffer);
    dropped
}
