//! What the connections of one thread share: buffers, the schedule, the count of what is left to do.

use std::{collections::VecDeque, sync::Arc};

use rustls::pki_types::ServerName;

use super::{answer::HeadParser, clock::Clock, pace::Pace, poll::Poll, portion::source, tally::Tally};
use crate::{Plan, plan::options::request_at, request::Request, template::Source};

/// Large enough that an answer of some kilobytes is one read; small enough to stay in the cache.
const RECEIVE_BYTES: usize = 64 * 1024;

pub(super) struct Context {
    pub plan: Arc<Plan>,
    pub keep_alive: bool,
    pub depth: usize,
    pub server_name: Option<ServerName<'static>>,
    pub clock: Clock,
    pub poll: Poll,
    pub receive: Box<[u8]>,
    /// Decrypted bytes of one read.
    pub plain: Vec<u8>,
    pub parser: HeadParser,
    pub requests: Requests,
    pub tally: Tally,
    pub pace: Option<Pace>,
    /// Connections that wait for a request to be due.
    pub idle: VecDeque<u32>,
    /// Connections that got their answers and send again after the events at hand: requests that leave in a burst
    /// cost the server fewer wake-ups than requests that leave one by one.
    pub(crate) refill: Vec<u32>,
    /// Whether requests are sent ahead of reading, see [`super::connection`]'s `ahead`.
    pub ahead: bool,
    /// Connections whose answer is not whole, as it seems, and since when.
    pub undecided: Vec<(u64, u32)>,
    /// Connections to be opened again, and when.
    pub reopen: Vec<(u64, u32)>,
    /// Requests not issued yet.
    pub left: u64,
    /// Issued and without an answer so far.
    pub(crate) outstanding: u64,
    pub stopping: bool,
    /// Each connection sends one request before the clock starts.
    pub(crate) is_warming: bool,
}

impl Context {
    /// Takes up to `wanted` requests from what is left.
    pub(super) fn issue(&mut self, wanted: usize) -> usize {
        if self.stopping {
            return 0;
        }
        let issued = (wanted as u64).min(self.left);
        self.left -= issued;
        self.outstanding += issued;
        issued as usize
    }

    /// Requests that were issued but lost with their connection, through no fault of theirs.
    pub(super) fn give_back(&mut self, count: u64) {
        self.outstanding -= count;
        self.left = self.left.saturating_add(count);
    }

    pub(super) fn is_done(&self) -> bool {
        self.left == 0 && self.outstanding == 0
    }

    pub(crate) fn new_receive_buffer() -> Box<[u8]> {
        vec![0; RECEIVE_BYTES].into()
    }
}

/// The requests in turn.
#[derive(Clone)]
pub(super) struct Requests {
    list: Vec<Request>,
    /// Numbers of the requests as they follow each other; empty: one after the other.
    order: Arc<[u32]>,
    /// The only request, as often in a row as a pipeline is deep.
    batch: Vec<u8>,
    batch_each: usize,
    next: usize,
    step: u64,
    source: Source,
    scratch: Vec<u8>,
}

impl Requests {
    pub(super) fn new(list: Vec<Request>, plan: &Plan, thread: usize) -> Requests {
        let only = match list.as_slice() {
            [one] => one.fixed().unwrap_or_default(),
            _ => &[],
        };
        let (batch, batch_each) = (only.repeat(plan.pipeline), only.len());
        let order = Arc::clone(&plan.options.order);
        let step = plan.threads as u64;
        Requests {
            list,
            order,
            batch,
            batch_each,
            next: thread,
            step,
            source: source(thread),
            scratch: Vec::new(),
        }
    }

    /// `count` times the only request, when there is only one and nothing in it varies.
    pub(super) fn fixed(&self, count: usize) -> Option<&[u8]> {
        if self.batch_each == 0 {
            return None;
        }
        self.batch.get(..self.batch_each * count)
    }

    /// Whether the only request is a HEAD.
    pub(crate) fn only_is_head(&self) -> bool {
        self.list.first().is_some_and(|request| request.is_head)
    }

    /// Appends the next request; returns which it is, and whether it is a HEAD.
    pub(crate) fn write_next(&mut self, out: &mut Vec<u8>, connection: usize) -> (u32, bool) {
        let at = request_at(&self.order, self.next, self.list.len());
        self.next = self.next.wrapping_add(1);
        self.source.connection = connection;
        let Some(request) = self.list.get(at) else { return (0, false) };
        request.write(out, &mut self.scratch, &mut self.source);
        self.source.number += self.step;
        (at as u32, request.is_head)
    }
}
