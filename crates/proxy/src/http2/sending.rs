//! What the streams of a connection have handed over to be sent: bounded while the client takes nothing of it.
//!
//! Crate `h2` keeps up to 64 KiB of each stream whose window is open, which are 8 MiB of a client that opens all its windows and
//! reads nothing.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Poll, Waker},
};

/// Handed over by all streams before the connection has to send some.
const HANDED_BYTES: usize = 256 * 1024;

/// Shared by the connection's task and its streams.
#[derive(Default)]
pub struct Sending {
    handed: Cell<usize>,
    /// Handed over since the connection began.
    total: Cell<u64>,
    /// Counts the times that all was sent.
    round: Cell<u64>,
    /// Each stream once a round.
    waiting: RefCell<Vec<Waker>>,
    /// What answers hold for slow streams, see [`crate::read_ahead`].
    pub held: Rc<Cell<usize>>,
}

impl Sending {
    /// Ready when a stream may hand something over. `asked`: the round in which it last found no room, from 1.
    pub fn poll_room(&self, context: &Context<'_>, asked: &mut u64) -> Poll<()> {
        if self.handed.get() < HANDED_BYTES {
            return Poll::Ready(());
        }
        let round = self.round.get() + 1;
        if std::mem::replace(asked, round) != round {
            self.waiting.borrow_mut().push(context.waker().clone());
        }
        Poll::Pending
    }

    pub fn total(&self) -> u64 {
        self.total.get()
    }

    pub fn hand_over(&self, bytes: usize) {
        self.total.set(self.total.get() + bytes as u64);
        self.handed.set(self.handed.get().saturating_add(bytes));
    }

    /// The client has taken all.
    pub fn all_sent(&self) {
        self.handed.set(0);
        if !self.waiting.borrow().is_empty() {
            self.round.set(self.round.get() + 1);
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}
