//! One thread of load: `epoll` over its connections, the schedule of the open model, ten slots a second.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use rustix::event::epoll;

use super::{
    clock::{nanos, thread_cpu_ns},
    connection::Connection,
    context::Context,
    ending::Ending,
    harvest::ThreadResult,
    start::Start,
    tally::{SLOT_NS, SharedSlots},
};
use crate::{
    Problem,
    system::sockets::{self, Sockets},
};

pub(crate) const MAX_EVENTS: usize = 1024;
/// How long the end of an open-model run waits for the answers of requests that were sent in time.
const GRACE_NS: u64 = 1_000_000_000;
/// With connections waiting to be opened again, the loop looks this often.
const REOPEN_POLL_NS: u64 = 5_000_000;

/// A head and its body that were sent separately are together after this time on a machine that is not too busy.
const DECIDE_NS: u64 = 5_000;

pub(super) struct Worker {
    pub(super) connections: Vec<Connection>,
    pub(super) context: Context,
    pub(super) end_ns: u64,
    timeout_ns: u64,
    pub(super) stop: Arc<AtomicBool>,
    /// Set where connections are warmed up first.
    start: Option<(Arc<Start>, SharedSlots)>,
    ending: Arc<Ending>,
}

impl Worker {
    pub(super) fn new(
        context: Context,
        connections: usize,
        stop: Arc<AtomicBool>,
        start: Option<(Arc<Start>, SharedSlots)>,
        ending: Arc<Ending>,
    ) -> Worker {
        let connections =
            (0..connections as u32).map(|index| Connection::new(index, context.depth)).collect();
        let end_ns = context.plan.duration.map_or(u64::MAX, nanos);
        let timeout_ns = nanos(context.plan.timeout);
        Worker { connections, context, end_ns, timeout_ns, stop, start, ending }
    }

    pub(super) fn run(mut self) -> Result<ThreadResult, Problem> {
        // Otherwise timers of the open model fire up to 50 us late.
        if self.context.pace.is_some() {
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        }
        if let Some((start, shared)) = self.start.take() {
            let started = self.start_warm(&start, shared);
            if started.is_err() {
                self.ending.arrive(0.0);
            }
            started?;
        }
        // To read them after the start would delay the first requests.
        let (cpu_before, waited_before) = (thread_cpu_ns(), crate::system::thread_wait_ns());
        std::thread::sleep(self.context.clock.until_start());
        for connection in &mut self.connections {
            connection.begin(&mut self.context);
        }
        let worked = self.work();
        let end_ns = self.context.clock.now();
        let cpu_ns = (thread_cpu_ns() - cpu_before).saturating_sub(self.context.poll.looked_ns);
        let waited_ns = crate::system::thread_wait_ns().saturating_sub(waited_before);
        self.ending.arrive(end_ns as f64 / 1e9);
        worked?;
        let unopened = self.connections.iter().filter(|connection| !connection.was_open).count();
        let (sockets, now) = self.finish(end_ns)?;
        let usual = |connection: &Connection| (connection.usual.count, connection.usual.latency_ns());
        let connections = self.connections.iter().map(usual).collect();
        self.context.tally.finish(now);
        let server = self.context.parser.server();
        Ok(ThreadResult {
            server,
            tally: self.context.tally,
            connections,
            sockets,
            unopened,
            cpu_ns,
            waited_ns,
            end_ns,
        })
    }

    fn sockets(&self) -> Sockets {
        let Some(port) = self.context.plan.addresses.first().map(std::net::SocketAddr::port) else {
            return Sockets::default();
        };
        let inodes: HashSet<u32> = self.connections.iter().filter_map(Connection::inode).collect();
        if inodes.is_empty() { Sockets::default() } else { sockets::read(port, &inodes) }
    }

    fn work(&mut self) -> Result<(), Problem> {
        let mut events = Vec::with_capacity(MAX_EVENTS);
        loop {
            let now = self.context.clock.now();
            if now >= self.end_ns || self.context.is_done() || self.stop.load(Relaxed) {
                return Ok(());
            }
            if self.context.tally.rotate(now) {
                self.sweep(now);
            }
            if !self.context.reopen.is_empty() {
                self.reopen(now);
            }
            self.dispatch(now);
            self.wait(&mut events)?;
        }
    }

    /// Gives requests that are due to connections that are free.
    fn dispatch(&mut self, now: u64) {
        loop {
            let Some(due) = self.context.pace.as_ref().map(|pace| pace.due()) else { return };
            if due > now {
                return;
            }
            let Some(index) = self.context.idle.pop_front() else { return };
            let taken = self
                .connections
                .get_mut(index as usize)
                .is_some_and(|connection| connection.take(due, &mut self.context));
            if taken && let Some(pace) = &mut self.context.pace {
                pace.advance();
            }
        }
    }

    pub(super) fn wait(&mut self, events: &mut Vec<epoll::Event>) -> Result<(), Problem> {
        let now = self.context.clock.now();
        let mut until = (now / SLOT_NS + 1) * SLOT_NS;
        until = until.min(self.end_ns);
        if let Some(pace) = self.context.pace.as_ref().filter(|_| !self.context.idle.is_empty()) {
            until = until.min(pace.due());
        }
        if !self.context.reopen.is_empty() {
            until = until.min(now + REOPEN_POLL_NS);
        }
        if !self.context.undecided.is_empty() {
            until = now;
        }
        let may_look = self.context.outstanding > 0 && self.context.pace.is_none();
        let Context { poll, clock, .. } = &mut self.context;
        poll.wait(events, clock, until, may_look)?;
        for event in events.iter() {
            let (token, flags) = (event.data.u64(), event.flags);
            if let Some(connection) = self.connections.get_mut(token as u32 as usize)
                && connection.is_current(token)
            {
                connection.ready(flags, &mut self.context);
            }
        }
        self.decide();
        while let Some(index) = self.context.refill.pop() {
            if let Some(connection) = self.connections.get_mut(index as usize) {
                connection.fill(&mut self.context);
            }
        }
        Ok(())
    }

    /// Reads what did not become the answer that was expected.
    fn decide(&mut self) {
        if self.context.undecided.is_empty() {
            return;
        }
        let now = self.context.clock.now();
        let mut undecided = std::mem::take(&mut self.context.undecided);
        undecided.retain(|&(since, index)| {
            if now < since + DECIDE_NS {
                return true;
            }
            if let Some(connection) = self.connections.get_mut(index as usize) {
                connection.decide(&mut self.context);
            }
            false
        });
        self.context.undecided.append(&mut undecided);
    }

    pub(super) fn reopen(&mut self, now: u64) {
        let mut waiting = std::mem::take(&mut self.context.reopen);
        waiting.retain(|&(at, index)| {
            if at > now {
                return true;
            }
            if let Some(connection) = self.connections.get_mut(index as usize) {
                connection.start(&mut self.context);
            }
            false
        });
        self.context.reopen.append(&mut waiting);
    }

    fn sweep(&mut self, now: u64) {
        for connection in &mut self.connections {
            connection.check_timeout(now, self.timeout_ns, &mut self.context);
        }
    }

    /// In the open model every request counts that was due before the end, with or without an answer. Returns what the system
    /// counted for the sockets, and when it was over.
    fn finish(&mut self, end: u64) -> Result<(Sockets, u64), Problem> {
        self.context.stopping = true;
        if self.context.pace.is_some() && !self.stop.load(Relaxed) {
            let mut events = Vec::with_capacity(MAX_EVENTS);
            self.end_ns = end + GRACE_NS;
            while self.context.outstanding > 0 && self.context.clock.now() < self.end_ns {
                self.context.idle.clear();
                self.wait(&mut events)?;
            }
        }
        let now = self.context.clock.now();
        let sockets = self.sockets();
        self.ending.wait();
        for connection in &mut self.connections {
            connection.abandon(now, &mut self.context);
        }
        let Context { pace, tally, left, .. } = &mut self.context;
        tally.left_over(pace.as_mut(), left, end, now);
        Ok((sockets, now))
    }
}

impl std::fmt::Debug for Worker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Worker").field("connections", &self.connections.len()).finish_non_exhaustive()
    }
}
