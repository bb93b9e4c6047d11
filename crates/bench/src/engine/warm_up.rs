//! Before the clock of an open model starts: connections are opened, and one request is sent on each. Otherwise the client's
//! own connects would be the tail of a short run.

use std::sync::atomic::Ordering::Relaxed;

use super::{
    clock::nanos,
    portion::fresh_tally,
    start::Start,
    tally::SharedSlots,
    worker::{MAX_EVENTS, Worker},
};
use crate::Problem;

impl Worker {
    /// Warms up, waits for the others, and begins with the common clock.
    pub(super) fn start_warm(&mut self, start: &Start, shared: SharedSlots) -> Result<(), Problem> {
        let warmed = self.warm_up(shared);
        // The others wait for this one, whatever became of it.
        start.warm.wait();
        start.ready.wait();
        if let Some(clock) = start.clock.get() {
            self.context.clock = *clock;
        }
        warmed
    }

    /// Until each connection has its answer; one that has none within the time of a request begins without.
    fn warm_up(&mut self, shared: SharedSlots) -> Result<(), Problem> {
        let (pace, left) = (self.context.pace.take(), self.context.left);
        let requests = self.context.requests.clone();
        let end = std::mem::replace(&mut self.end_ns, nanos(self.context.plan.timeout));
        self.context.left = u64::MAX;
        self.context.is_warming = true;
        let result = self.warm_connections();
        let context = &mut self.context;
        context.is_warming = false;
        (context.pace, context.left, context.requests, context.outstanding) = (pace, left, requests, 0);
        self.end_ns = end;
        context.refill.clear();
        context.idle.clear();
        context.reopen.clear();
        context.undecided.clear();
        let fresh = fresh_tally(&context.plan, shared);
        let warm = std::mem::replace(&mut context.tally, fresh);
        (context.tally.connect, context.tally.handshake) = (warm.connect, warm.handshake);
        result
    }

    fn warm_connections(&mut self) -> Result<(), Problem> {
        std::thread::sleep(self.context.clock.until_start());
        let mut events = Vec::with_capacity(MAX_EVENTS);
        for connection in &mut self.connections {
            connection.start(&mut self.context);
        }
        loop {
            let now = self.context.clock.now();
            let all =
                self.context.outstanding == 0 && self.connections.iter().all(|connection| connection.is_warm);
            if all || now >= self.end_ns || self.stop.load(Relaxed) {
                return Ok(());
            }
            if !self.context.reopen.is_empty() {
                self.reopen(now);
            }
            self.wait(&mut events)?;
        }
    }
}
