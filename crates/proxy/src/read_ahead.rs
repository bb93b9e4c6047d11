//! Bounds how much of answers is read before their clients take it: little for each, and a limit for a connection and for
//! the process.
//!
//! A client that requests much and takes nothing costs the bytes read for it. How much is read at a time follows how the
//! client takes it: less after each wait for it, more each time that it took all. What an HTTP/2 upstream
//! may send meanwhile counts as held: its window is open whether we read or not. Together these bytes get a part of the
//! memory for bodies. Beyond it nothing is read ahead, and a client that takes less than
//! `apisix.body_memory.min_rate` is ended: otherwise a byte now and then would hold the budget forever.

use std::{
    cell::Cell,
    rc::Rc,
    sync::atomic::{
        AtomicBool, AtomicU64, AtomicUsize,
        Ordering::{AcqRel, Relaxed},
    },
};

use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use crate::buffer::LARGE;

/// Read at a time for a client that has taken nothing yet, or takes it slowly.
pub const LEAST_BYTES: usize = 8 * 1024;
/// The most that the streams of one connection hold together while more is read ahead for them.
pub const CONNECTION_BYTES: usize = 1024 * 1024;
/// All of it together: one part in so many of `apisix.body_memory.total`.
const PART: usize = 4;

static HELD: AtomicUsize = AtomicUsize::new(0);
/// Bytes that HTTP/2 upstreams may send of answers of which no client has taken anything.
static GRANTED: AtomicUsize = AtomicUsize::new(0);
static SPENT: AtomicBool = AtomicBool::new(false);
static ENDED: AtomicU64 = AtomicU64::new(0);

/// The numbers for the metrics page.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes of responses that clients have not read.
    pub held: usize,
    /// Their share of the memory for bodies.
    pub limit: usize,
    /// Answers ended because their clients took too little while the memory was spent.
    pub ended: u64,
}

/// Of all workers.
pub fn usage() -> Usage {
    Usage { held: HELD.load(Relaxed), limit: limit(), ended: ENDED.load(Relaxed) }
}

fn limit() -> usize {
    tidegate_plugin_api::memory::limit() / PART
}

/// Whether more is held than may be.
pub fn is_spent() -> bool {
    SPENT.load(Relaxed)
}

/// Whether half of it is held, or may be at any moment: upstreams get little room for answers whose clients may not
/// take them.
pub(crate) fn is_scarce() -> bool {
    HELD.load(Relaxed).saturating_add(GRANTED.load(Relaxed)) > limit() / 2
}

/// A window for an answer, until its client has taken something.
pub(crate) struct Granted(usize);

impl Granted {
    pub(crate) fn new(bytes: u32) -> Granted {
        GRANTED.fetch_add(bytes as usize, Relaxed);
        Granted(bytes as usize)
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        GRANTED.fetch_sub(self.0, Relaxed);
    }
}

pub(crate) fn count_ended() {
    ENDED.fetch_add(1, Relaxed);
}

/// The bytes that one answer holds, and how much may be read for it.
pub(crate) struct ReadAhead {
    held: usize,
    /// The bytes that all streams of an HTTP/2 connection hold.
    connection: Option<Rc<Cell<usize>>>,
    step: usize,
}

impl ReadAhead {
    /// `connection`: of HTTP/2. A stream's window may be closed from the start; a socket takes something.
    pub(crate) fn new(connection: Option<Rc<Cell<usize>>>) -> ReadAhead {
        let step = if connection.is_some() { LEAST_BYTES } else { LARGE };
        ReadAhead { held: 0, connection, step }
    }

    /// Bytes to read while `pending` wait for the client; 0: none before it takes some.
    pub(crate) fn room(&self, pending: usize) -> usize {
        match pending {
            0 => self.step,
            _ if self.is_short() => 0,
            pending => LEAST_BYTES.saturating_sub(pending),
        }
    }

    /// Whether no memory is left for bytes that clients do not take.
    pub(crate) fn is_short(&self) -> bool {
        is_spent() || self.connection.as_ref().is_some_and(|held| held.get() > CONNECTION_BYTES)
    }

    /// The client took all that there was.
    pub(crate) fn flows(&mut self) {
        self.step = (self.step * 2).min(LARGE);
        if self.held > 0 {
            self.hold(0);
        }
    }

    /// The client is waited for, and this is held for it meanwhile.
    pub(crate) fn stalls(&mut self, bytes: usize) {
        if self.held == 0 {
            self.step = (self.step / 2).max(LEAST_BYTES);
        }
        if self.held != bytes {
            self.hold(bytes);
        }
    }

    fn hold(&mut self, bytes: usize) {
        let before = std::mem::replace(&mut self.held, bytes);
        if let Some(connection) = &self.connection {
            connection.set((connection.get() + bytes).saturating_sub(before));
        }
        let all = match bytes.checked_sub(before) {
            Some(more) => HELD.fetch_add(more, Relaxed) + more,
            None => HELD.fetch_sub(before - bytes, Relaxed) - (before - bytes),
        };
        let limit = limit();
        let spent = all > limit;
        if spent != SPENT.load(Relaxed) && !SPENT.swap(spent, AcqRel) && spent {
            warn_of_memory(limit);
        }
    }
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        if self.held > 0 {
            self.hold(0);
        }
    }
}

#[cold]
fn warn_of_memory(limit: usize) {
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Warn,
            format_args!(
                "responses that clients do not read take more than {limit} bytes, their share of \
                 apisix.body_memory.total: nothing is read ahead for slow clients, and those below \
                 apisix.body_memory.min_rate are ended; \
                 {others} more since the previous line"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_as_the_client_takes() {
        tidegate_plugin_api::memory::set_limit(usize::MAX);
        let mut socket = ReadAhead::new(None);
        assert_eq!(socket.room(0), LARGE);
        socket.stalls(20_000);
        assert_eq!((socket.room(0), socket.room(1000), socket.room(LEAST_BYTES)), (LARGE / 2, 7192, 0));
        let connection = Rc::new(Cell::new(0));
        let mut stream = ReadAhead::new(Some(connection.clone()));
        assert_eq!(stream.room(0), LEAST_BYTES);
        stream.flows();
        assert_eq!(stream.room(0), 2 * LEAST_BYTES);
        stream.stalls(CONNECTION_BYTES + 1);
        assert_eq!((stream.room(0), stream.room(1)), (LEAST_BYTES, 0));
        assert!(stream.is_short());
        stream.stalls(10);
        assert_eq!(connection.get(), 10);
        assert!(!stream.is_short());
        // A part of 1,000 bytes, which others hold already.
        tidegate_plugin_api::memory::set_limit(PART * 1000);
        socket.stalls(20_001);
        assert!(stream.is_short() && is_spent());
        assert_eq!(stream.room(1), 0);
        drop(socket);
        assert!(!is_spent());
        drop(stream);
        assert_eq!((connection.get(), usage().held), (0, 0));
    }
}
