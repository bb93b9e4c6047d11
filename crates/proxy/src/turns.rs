//! Turns of connections that send requests ahead of the answers: pipelining (RFC 9112, 9.3.2), and many streams of HTTP/2.
//!
//! Such a connection always has something to do: 4,000 with 200 requests each are seconds in which no other client is accepted or
//! served. So a connection that has its next request at hand serves it only in a turn, of a few requests, and the worker looks at its sockets
//! between two turns. Others wait for one turn at most, however many connections wait for theirs. A connection with one request at a time
//! never comes here.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    future::poll_fn,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use tidegate_plugin_api::poll_clock;

/// Requests of a turn.
const IN_A_ROW: u32 = 16;
/// A turn ends after so long, too.
const LONGEST: Duration = Duration::from_micros(250);

#[derive(Default)]
pub(crate) struct Turns {
    /// First come, first served. Bounded by the connections that are open.
    waiting: RefCell<VecDeque<Waker>>,
    /// Numbers that were drawn; the one behind the last of `waiting`.
    drawn: Cell<u64>,
    /// Those below have had their call.
    called: Cell<u64>,
    /// A turn was given since the worker looked at its sockets.
    given: Cell<bool>,
}

/// A connection's turn.
pub(crate) struct Turn {
    /// When the poll in which it last served began.
    poll: Instant,
    ends: Instant,
    left: u32,
}

impl Turns {
    /// Ready when the connection may serve the request that it has at hand. `turn`: its last one.
    pub(crate) async fn next(&'static self, turn: &mut Option<Turn>) {
        let poll = poll_clock::now();
        if let Some(turn) = turn {
            // The answer took a wait, in which others had their turn.
            let waited = std::mem::replace(&mut turn.poll, poll) != poll;
            if waited || turn.take(Instant::now()) {
                return;
            }
        }
        let mut number = None;
        poll_fn(|context| self.poll_turn(&mut number, context)).await;
        *turn = Some(Turn { poll: poll_clock::now(), ends: Instant::now() + LONGEST, left: IN_A_ROW - 1 });
    }

    /// A connection has had a turn since the worker looked at its sockets: others wait.
    pub(crate) fn is_busy(&self) -> bool {
        self.given.get()
    }

    /// Whether none waits before the one with this number.
    pub(crate) fn is_next(&self, number: Option<u64>) -> bool {
        number == Some(self.called.get())
    }

    /// Draws a number where the caller has none, and wakes it when it is called.
    pub(crate) fn poll_turn(&'static self, number: &mut Option<u64>, context: &Context<'_>) -> Poll<()> {
        if let Some(drawn) = *number {
            if drawn >= self.called.get() {
                return Poll::Pending;
            }
            *number = None;
            return Poll::Ready(());
        }
        if !self.given.replace(true) {
            tokio::task::spawn_local(self.advance());
            return Poll::Ready(());
        }
        self.waiting.borrow_mut().push_back(context.waker().clone());
        *number = Some(self.drawn.replace(self.drawn.get() + 1));
        Poll::Pending
    }

    /// Runs until none waits.
    async fn advance(&self) {
        loop {
            // Resumes once the worker has looked at its sockets.
            tokio::task::yield_now().await;
            let next = self.waiting.borrow_mut().pop_front();
            let Some(next) = next else { break };
            self.called.set(self.called.get() + 1);
            next.wake();
        }
        self.given.set(false);
    }
}

impl Turn {
    /// Takes a request of what is left; `false`: the turn is over.
    fn take(&mut self, now: Instant) -> bool {
        let lasts = self.left > 0 && now < self.ends;
        self.left = if lasts { self.left - 1 } else { 0 };
        lasts
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use super::*;

    fn in_a_worker(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        poll_clock::begin(Instant::now());
        tokio::task::LocalSet::new().block_on(&runtime, test);
    }

    /// A connection that sends `requests` at once.
    async fn serve(turns: &'static Turns, requests: u32, served: Rc<Cell<u32>>) {
        let mut turn = None;
        for _ in 0..requests {
            served.set(served.get() + 1);
            turns.next(&mut turn).await;
        }
    }

    #[test]
    fn others_get_their_turn_between_two() {
        let turns: &'static Turns = Box::leak(Box::default());
        let served = Rc::new(Cell::new(0));
        in_a_worker(async {
            let connection = |_| tokio::task::spawn_local(serve(turns, 100, served.clone()));
            let connections: Vec<_> = (0..200).map(connection).collect();
            let mut most = 0;
            while served.get() < 200 * 100 {
                let before = served.get();
                tokio::task::yield_now().await;
                // The first request of each needs no turn.
                if before > 200 {
                    most = most.max(served.get() - before);
                }
            }
            for connection in connections {
                connection.await.expect("has served");
            }
            assert!((1..=2 * IN_A_ROW).contains(&most), "{most} requests in a row");
        });
    }

    #[test]
    fn a_turn_ends_by_number_and_by_time() {
        let poll = Instant::now();
        let ends = poll + LONGEST;
        let mut turn = Turn { poll, ends, left: 2 };
        assert!(turn.take(poll) && turn.take(poll) && !turn.take(poll));
        let mut turn = Turn { poll, ends, left: 2 };
        assert!(turn.take(poll) && !turn.take(ends) && !turn.take(poll));
    }

    #[test]
    fn who_leaves_while_it_waits_holds_none_up() {
        let turns: &'static Turns = Box::leak(Box::default());
        let served = Rc::new(Cell::new(0));
        in_a_worker(async {
            let connection = |_| tokio::task::spawn_local(serve(turns, 3, served.clone()));
            let connections: Vec<_> = (0..20).map(connection).collect();
            while served.get() < 20 {
                tokio::task::yield_now().await;
            }
            connections.iter().step_by(3).for_each(|connection| connection.abort());
            for connection in connections {
                let _ = connection.await;
            }
            while turns.given.get() {
                tokio::task::yield_now().await;
            }
        });
        assert!(served.get() >= 20 + 13 * 2, "{}", served.get());
        assert_eq!(turns.called.get(), turns.drawn.get());
    }
}
