//! The order of reads when many slow clients send a piece at the same moment.
//!
//! 2,000 heads or bodies that trickle by the same clock make 2,000 reads that are due at once: some 10 ms in which no
//! other client is served. So only a few of them run before the worker polls its other sockets again. The delay costs
//! little: the bytes wait in the socket, and the client is slow anyway.

use std::{
    cell::{Cell, RefCell},
    collections::VecDeque,
    task::{Context, Poll, Waker},
};

/// Reads between two looks at what has come for others: less than 0.1 ms.
const AT_ONCE: u32 = 16;

pub(crate) struct SlowLane {
    /// Reads that may still run.
    left: Cell<u32>,
    /// First come, first served. Bounded by the polls of connections that are open.
    waiting: RefCell<VecDeque<Waker>>,
    moving: Cell<bool>,
}

impl Default for SlowLane {
    fn default() -> SlowLane {
        SlowLane { left: Cell::new(AT_ONCE), waiting: RefCell::default(), moving: Cell::new(false) }
    }
}

impl SlowLane {
    /// Ready when the task may read now; else it is woken when it is its turn.
    pub(crate) fn poll_turn(&'static self, context: &Context<'_>) -> Poll<()> {
        let left = self.left.get();
        if left > 0 {
            self.left.set(left - 1);
            return Poll::Ready(());
        }
        self.waiting.borrow_mut().push_back(context.waker().clone());
        if !self.moving.replace(true) {
            tokio::task::spawn_local(self.advance());
        }
        Poll::Pending
    }

    /// Runs until no read waits.
    async fn advance(&self) {
        loop {
            // Resumes once the worker has looked at its sockets.
            tokio::task::yield_now().await;
            if !self.next() {
                self.moving.set(false);
                return;
            }
        }
    }

    /// Lets the next ones read; `false` if the queue is empty.
    fn next(&self) -> bool {
        self.left.set(AT_ONCE);
        let mut waiting = self.waiting.borrow_mut();
        let count = waiting.len().min(AT_ONCE as usize);
        // Waking only puts a task into the queue.
        waiting.drain(..count).for_each(Waker::wake);
        !waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, rc::Rc};

    use super::*;

    #[test]
    fn others_get_their_turn_between_a_few_reads() {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let lane: &'static SlowLane = Box::leak(Box::default());
        let read = Rc::new(Cell::new(0));
        let most = tokio::task::LocalSet::new().block_on(&runtime, async {
            let slow: Vec<_> = (0..1000)
                .map(|_| {
                    let read = read.clone();
                    tokio::task::spawn_local(async move {
                        poll_fn(|context| lane.poll_turn(context)).await;
                        read.set(read.get() + 1);
                    })
                })
                .collect();
            let mut most = 0;
            while read.get() < slow.len() {
                let before = read.get();
                tokio::task::yield_now().await;
                most = most.max(read.get() - before);
            }
            for task in slow {
                task.await.expect("has read");
            }
            most
        });
        // The first ones, and those that were woken after them.
        assert!(most <= 2 * AT_ONCE as usize, "{most} reads in a row");
        assert!(!lane.moving.get() && lane.waiting.borrow().is_empty());
    }
}
