//! Bytes that the streams of a connection have handed over to be sent: bounded while the client takes none of them.
//!
//! Crate `h2` keeps up to 64 KiB of each stream whose window is open, which are 8 MiB of a client that opens all its windows and
//! reads nothing.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    task::{Context, Poll, Waker},
};

use super::places::Places;
use crate::read_ahead::{self, ReadAhead};

/// Handed over by all streams before the connection has to send some.
const HANDED_BYTES: usize = 256 * 1024;
/// The same where answers that are not taken hold all the memory that they may.
const HANDED_LEAST: usize = 16 * 1024;

/// Shared by the connection's task and its streams.
pub(crate) struct Sending {
    pub places: Places,
    handed: Cell<usize>,
    /// Bytes handed over while the socket takes nothing.
    stuck: RefCell<ReadAhead>,
    /// Counts the times that all was sent.
    round: Cell<u64>,
    /// At most once per stream and round.
    waiting: RefCell<Vec<Waker>>,
    /// The bytes that answers hold for slow streams, see [`crate::read_ahead`].
    pub held: Rc<Cell<usize>>,
}

impl Sending {
    pub(crate) fn new(places: Places) -> Sending {
        Sending {
            places,
            handed: Cell::new(0),
            stuck: RefCell::new(ReadAhead::new(None)),
            round: Cell::new(0),
            waiting: RefCell::default(),
            held: Rc::default(),
        }
    }

    /// Ready when a stream may hand something over. `asked`: the round in which it last found no room, from 1.
    pub(crate) fn poll_room(&self, context: &Context<'_>, asked: &mut u64) -> Poll<()> {
        let most = if read_ahead::is_spent() { HANDED_LEAST } else { HANDED_BYTES };
        if self.handed.get() < most {
            return Poll::Ready(());
        }
        let round = self.round.get() + 1;
        if std::mem::replace(asked, round) != round {
            self.waiting.borrow_mut().push(context.waker().clone());
        }
        Poll::Pending
    }

    pub(crate) fn hand_over(&self, bytes: usize) {
        self.places.hand_over(bytes);
        self.handed.set(self.handed.get().saturating_add(bytes));
    }

    /// The socket takes nothing.
    pub(crate) fn is_stuck(&self) {
        self.stuck.borrow_mut().stalls(self.handed.get());
    }

    /// The client has taken all.
    pub(crate) fn all_sent(&self) {
        if self.handed.replace(0) > 0 {
            self.stuck.borrow_mut().flows();
        }
        if !self.waiting.borrow().is_empty() {
            self.round.set(self.round.get() + 1);
            self.waiting.take().into_iter().for_each(Waker::wake);
        }
    }
}
