//! Bounds the connections of a worker to one node, and queues requests that wait for a stream on them.
//!
//! Every connection counts from before it is dialled until its socket is closed, also one that is given up and still
//! carries streams. One is opened at a time. After one was given up as silent, the node must send something on the
//! next before requests share it or another one is opened: a node that pauses gets one new connection at a time.

use std::{
    cell::Cell,
    future::{Future, poll_fn},
    pin::pin,
    rc::Rc,
    task::{Context, Poll},
};

use tokio::sync::Notify;

use super::window::{MOST_STREAMS, Window};

/// Connections to one node; past that requests wait for a stream.
pub(super) const MOST_CONNECTIONS: usize = 64;
/// The last of them always have small windows: requests that may use no others can still get one.
const SMALL_CONNECTIONS: usize = 8;

#[derive(Default)]
pub(super) struct Gate {
    existing: Cell<usize>,
    /// Those of them with full windows.
    full: Cell<usize>,
    /// A connection is being opened.
    opening: Cell<bool>,
    /// An idle connection was closed to make room, and still exists.
    leaving: Cell<bool>,
    /// One was given up as silent, and the node has sent nothing since.
    silent: Cell<bool>,
    changed: Notify,
    /// How often a change has woken a waiter.
    round: Cell<u64>,
}

impl Gate {
    pub(super) fn is_opening(&self) -> bool {
        self.opening.get()
    }

    pub(super) fn is_silent(&self) -> bool {
        self.silent.get()
    }

    /// No answer has come for too long.
    pub(super) fn fell_silent(&self) {
        self.silent.set(true);
    }

    /// The node is there: it has sent something.
    pub(super) fn heard(&self) {
        self.silent.set(false);
    }

    /// No further connection with full windows.
    pub(super) fn has_no_full(&self) -> bool {
        self.full.get() >= MOST_CONNECTIONS - SMALL_CONNECTIONS
    }

    /// The right to open a connection, unless there are as many as may be.
    pub(super) fn open(self: &Rc<Gate>, wanted: Window) -> Option<(Existing, Turn, Window)> {
        if self.opening.get() || self.existing.get() >= MOST_CONNECTIONS {
            return None;
        }
        let window = if self.has_no_full() { Window::Small } else { wanted };
        self.existing.set(self.existing.get() + 1);
        if window == Window::Full {
            self.full.set(self.full.get() + 1);
        }
        self.opening.set(true);
        Some((Existing { gate: self.clone(), window }, Turn(self.clone()), window))
    }

    /// Whether an idle connection may be closed to make room: one at a time.
    pub(super) fn may_evict(&self) -> bool {
        !self.leaving.replace(true)
    }

    pub(super) fn evicted_none(&self) {
        self.leaving.set(false);
    }

    /// There is room for so many.
    pub(super) fn wake(&self, count: usize) {
        self.round.set(self.round.get() + 1);
        for _ in 0..count {
            self.changed.notify_one();
        }
    }
}

/// A connection from before it is dialled until its socket is closed.
pub(super) struct Existing {
    pub gate: Rc<Gate>,
    window: Window,
}

impl Drop for Existing {
    fn drop(&mut self) {
        let gate = &self.gate;
        gate.existing.set(gate.existing.get().saturating_sub(1));
        if self.window == Window::Full {
            gate.full.set(gate.full.get().saturating_sub(1));
        }
        gate.leaving.set(false);
        // While a connection is being opened, its opener wakes the others.
        if !gate.opening.get() {
            gate.wake(1);
        }
    }
}

/// Held while a connection is opened. The others wait until it is dropped.
pub(super) struct Turn(Rc<Gate>);

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.opening.set(false);
        // As many as it has streams for, and one to open the next.
        self.0.wake(MOST_STREAMS + 1);
    }
}

/// A request that waits for a stream.
pub(crate) struct Waiting {
    gate: Rc<Gate>,
    /// The change for which it was woken last.
    woken: Option<u64>,
}

impl Waiting {
    pub(super) fn new(gate: &Rc<Gate>) -> Waiting {
        Waiting { gate: gate.clone(), woken: None }
    }

    /// Whether time goes by because the node does not answer: otherwise other requests have all streams.
    pub(crate) fn is_for_node(&self) -> bool {
        self.gate.opening.get() || self.gate.silent.get()
    }

    /// Waits until there may be a stream; the error of `ended` ends it.
    pub(crate) async fn changed<E>(
        &mut self,
        mut ended: impl FnMut(&mut Context<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        // The change may help the next waiter: woken once for each change, or two would wake each other forever.
        let round = self.gate.round.get();
        if self.woken.is_some_and(|woken| woken != round) {
            self.gate.changed.notify_one();
        }
        let mut changed = pin!(self.gate.changed.notified());
        poll_fn(|context| {
            // Checked first: a waiter that ends passes its wakeup on.
            if let Err(error) = ended(context) {
                return Poll::Ready(Err(error));
            }
            changed.as_mut().poll(context).map(Ok)
        })
        .await?;
        self.woken = Some(round);
        Ok(())
    }
}
