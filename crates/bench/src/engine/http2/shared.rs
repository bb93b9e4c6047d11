//! What the connections of a worker share.

use std::{cell::RefCell, ops::ControlFlow, rc::Rc, sync::Arc};

use bytes::Bytes;
use rustls::pki_types::ServerName;
use tokio::sync::Notify;

use super::{
    super::{
        answered::Answered,
        clock::Clock,
        failure::{Broken, Failure},
        harvest::ThreadResult,
        local::Took,
        pace::Pace,
        portion::Portion,
        slot::Usual,
        tally::Tally,
    },
    Http2Request,
    lost::Lost,
};
use crate::{Plan, template::Source};

/// What the tasks of one thread share.
pub(super) struct Shared {
    pub(super) plan: Arc<Plan>,
    pub(super) requests: Vec<Http2Request>,
    pub(super) clock: Clock,
    pub(super) tally: Tally,
    pub(super) pace: Option<Pace>,
    pub(super) left: u64,
    pub(super) next: usize,
    pub(super) source: Source,
    pub(super) thread: usize,
    /// Each connection sends one request before the clock starts; how many have, and what signals that it has.
    pub(super) is_warming: bool,
    pub(super) warm: usize,
    pub(super) started: Rc<Notify>,
    pub(super) was_open: Vec<bool>,
    /// (sent, due) of the stream in each place.
    pub(super) in_flight: Vec<Option<(u64, u64)>>,
    pub(super) connections: Vec<Usual>,
    pub(super) server: String,
    pub(super) server_name: Option<ServerName<'static>>,
}

pub(super) type Common = Rc<RefCell<Shared>>;

impl Shared {
    pub(super) fn of(portion: Portion, requests: Vec<Http2Request>) -> Shared {
        let (connections, streams) = (portion.connections, portion.connections * portion.plan.pipeline);
        Shared {
            source: portion.source(),
            next: portion.thread,
            thread: portion.thread,
            pace: portion.pace,
            left: portion.left,
            is_warming: false,
            warm: 0,
            started: Rc::default(),
            was_open: vec![false; connections],
            in_flight: vec![None; streams],
            connections: vec![Usual::default(); connections],
            server: String::new(),
            server_name: portion.server_name,
            plan: portion.plan,
            requests,
            clock: portion.clock,
            tally: portion.tally,
        }
    }

    /// The next request, which it is and when it is due; `None` when all are taken.
    pub(super) fn take(&mut self, connection: usize) -> Option<(http::Request<()>, Bytes, u32, u64)> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let due = self.pace.as_mut().map(|pace| {
            let due = pace.due();
            pace.advance();
            due
        });
        let at = self.plan.request_at(self.next);
        self.next = self.next.wrapping_add(1);
        self.source.connection = connection;
        let (head, body) = self.requests.get(at)?.render(&mut self.source);
        self.source.number += self.plan.threads as u64;
        Some((head, body, at as u32, due.unwrap_or(0)))
    }

    pub(super) fn not_connected(&mut self, broken: &Broken) {
        self.tally.fail(broken.failure, &broken.message);
        if self.left != u64::MAX && !self.is_warming {
            // A run of -n requests against a server that went away must end.
            self.left = self.left.saturating_sub(1);
        }
    }

    /// Counts what became of a request; returns `Break` once the connection is unusable.
    pub(super) fn finish(
        &mut self,
        result: Result<(u16, u64), Lost>,
        connection: usize,
        (request, sent, due): (u32, u64, u64),
    ) -> ControlFlow<()> {
        match result {
            Ok((status, first_byte)) => {
                let now = self.clock.now();
                self.tally.complete(&Answered { now, sent, due, first_byte, status, request });
                if let Some(usual) = self.connections.get_mut(connection) {
                    usual.add(now - sent);
                }
                ControlFlow::Continue(())
            }
            Err(Lost::Unanswered) => {
                self.left = self.left.saturating_add(1);
                self.tally.server_closes += 1;
                ControlFlow::Break(())
            }
            Err(Lost::Refused(code, message)) => {
                self.tally.fail(Failure::Grpc, &message);
                self.tally.beyond.grpc.count(code);
                ControlFlow::Continue(())
            }
            Err(Lost::Failed(broken)) => {
                self.tally.fail(broken.failure, &broken.message);
                if broken.failure == Failure::Closed {
                    ControlFlow::Break(())
                } else {
                    ControlFlow::Continue(())
                }
            }
        }
    }

    pub(super) fn harvest(mut self, &Took { end_ns, cpu_ns, waited_ns }: &Took) -> ThreadResult {
        for (sent, due) in self.in_flight.into_iter().flatten() {
            self.tally.unfinished(end_ns, sent, due);
        }
        self.tally.left_over(self.pace.as_mut(), &mut self.left, end_ns, end_ns);
        self.tally.finish(end_ns);
        let usual = |usual: &Usual| (usual.count, usual.latency_ns());
        let connections = self.connections.iter().map(usual).collect();
        ThreadResult {
            tally: self.tally,
            connections,
            sockets: Default::default(),
            unopened: self.was_open.iter().filter(|was_open| !**was_open).count(),
            cpu_ns,
            waited_ns,
            end_ns,
            server: self.server,
        }
    }
}
