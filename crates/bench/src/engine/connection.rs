//! One connection: `Closed -> Connecting -> (Handshaking) -> Open -> Closed`.
//!
//! An open one has requests on the way, at most as many as the pipeline is deep. It owns no buffer unless an answer
//! ended in the middle of its framing or the system did not take a whole request.

mod ahead;
mod receive;
mod size;

use std::collections::VecDeque;

use rustix::event::epoll::EventFlags;

use super::{
    answer::AnswerReader,
    context::Context,
    failure::{Broken, Failure},
    lives::End,
    slot::Usual,
    socket::{Peer, Socket},
};

/// After a failed connect; doubles with every further one.
const FIRST_RETRY_NS: u64 = 10_000_000;
const LAST_RETRY_NS: u64 = 1_000_000_000;

#[derive(Debug)]
pub(super) struct Connection {
    index: u32,
    socket: Option<Socket>,
    state: State,
    /// Events of an earlier socket of this place carry another one.
    generation: u32,
    connect_started: u64,
    failed_connects: u32,
    reader: AnswerReader,
    /// Received and not used up.
    partial: Vec<u8>,
    /// Not taken by the system yet.
    out: Vec<u8>,
    in_flight: VecDeque<Sent>,
    /// When the answer under way began, if it came in pieces.
    first_byte: u64,
    /// When the request was due that waits for this connection to open.
    waiting: Option<u64>,
    pub usual: Usual,
    size: self::size::Size,
    /// Answers since it was opened.
    answers: u64,
    /// Whether it has ever been open, and whether it has sent its request of the warm-up.
    pub(crate) was_open: bool,
    pub(crate) is_warm: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed,
    Connecting,
    Handshaking,
    Open,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: u64,
    due: u64,
    /// Which of the plan's requests.
    request: u32,
    is_head: bool,
}

impl Connection {
    pub(super) fn new(index: u32, depth: usize) -> Connection {
        Connection {
            index,
            socket: None,
            state: State::Closed,
            generation: 0,
            connect_started: 0,
            failed_connects: 0,
            reader: AnswerReader::default(),
            partial: Vec::new(),
            out: Vec::new(),
            in_flight: VecDeque::with_capacity(depth),
            first_byte: 0,
            waiting: None,
            usual: Usual::default(),
            size: self::size::Size::default(),
            answers: 0,
            was_open: false,
            is_warm: false,
        }
    }

    fn token(&self) -> u64 {
        u64::from(self.generation) << 32 | u64::from(self.index)
    }

    pub(crate) fn is_current(&self, token: u64) -> bool {
        (token >> 32) as u32 == self.generation
    }

    /// Begins to work: connects, or in a run without keep-alive asks for the first request.
    pub(super) fn start(&mut self, context: &mut Context) {
        if context.keep_alive { self.open(context) } else { self.fill(context) }
    }

    fn open(&mut self, context: &mut Context) {
        let nothing_left = context.left == 0 && self.waiting.is_none();
        if self.state != State::Closed || context.stopping || nothing_left {
            return;
        }
        self.generation = self.generation.wrapping_add(1);
        self.connect_started = context.clock.now();
        let addresses = &context.plan.addresses;
        let address = addresses.get(self.index as usize % addresses.len().max(1));
        let unix = context.plan.options.unix.as_deref();
        let Some(peer) = unix.map(Peer::Unix).or(address.map(Peer::Tcp)) else { return };
        let tls = context.plan.tls.as_ref().zip(context.server_name.as_ref());
        let how = context.plan.options.acknowledgements;
        let small = !context.plan.has_bodies();
        match Socket::connect(peer, tls, context.poll.epoll(), self.token(), small, how) {
            Ok(socket) => {
                self.socket = Some(socket);
                self.state = State::Connecting;
            }
            Err(broken) => self.fail(broken, context),
        }
    }

    /// A request that is due, in the open model.
    pub(super) fn take(&mut self, due: u64, context: &mut Context) -> bool {
        match self.state {
            State::Open if self.in_flight.is_empty() => {
                if context.issue(1) == 1 {
                    let now = context.clock.now();
                    self.send(1, now, due, context);
                }
                true
            }
            State::Closed if !context.keep_alive => {
                if context.issue(1) == 1 {
                    self.waiting = Some(due);
                    self.open(context);
                }
                true
            }
            _ => false,
        }
    }

    pub(super) fn ready(&mut self, events: EventFlags, context: &mut Context) {
        if let Err(broken) = self.advance(events, context) {
            self.fail(broken, context);
        }
    }

    fn advance(&mut self, events: EventFlags, context: &mut Context) -> Result<(), Broken> {
        let gone = EventFlags::HUP | EventFlags::ERR | EventFlags::RDHUP;
        if self.state == State::Connecting {
            if !events.intersects(EventFlags::OUT | gone) {
                return Ok(());
            }
            self.connected(context)?;
            if !events.intersects(EventFlags::IN | gone) {
                return Ok(());
            }
        }
        if !self.out.is_empty() && events.contains(EventFlags::OUT) {
            self.flush()?;
        }
        if events.intersects(EventFlags::IN | gone) {
            let gone = events.intersects(gone);
            if gone || !context.ahead || !self.go_ahead(context)? {
                self.read(gone, context)?;
            }
        }
        Ok(())
    }

    fn connected(&mut self, context: &mut Context) -> Result<(), Broken> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        socket.connected()?;
        let now = context.clock.now();
        context.tally.connect.saturating_record(now - self.connect_started);
        if socket.is_tls() {
            self.state = State::Handshaking;
            socket.encrypt(&[], &mut self.out)?;
            return self.flush();
        }
        self.opened(now, context);
        Ok(())
    }

    fn opened(&mut self, now: u64, context: &mut Context) {
        self.state = State::Open;
        self.was_open = true;
        self.failed_connects = 0;
        match self.waiting.take() {
            // A request without keep-alive takes as long as a user waits: the connect counts.
            Some(due) => self.send(1, self.connect_started, due, context),
            None => self.fill_at(now, context),
        }
    }

    /// Sends what may be on the way, or waits to be given something.
    pub(super) fn fill(&mut self, context: &mut Context) {
        let now = context.clock.now();
        self.fill_at(now, context);
    }

    fn fill_at(&mut self, now: u64, context: &mut Context) {
        if context.is_warming && std::mem::replace(&mut self.is_warm, true) {
            return;
        }
        if context.pace.is_some() {
            if self.in_flight.is_empty() && self.waiting.is_none() {
                context.idle.push_back(self.index);
            }
            return;
        }
        match self.state {
            State::Open => {
                let count = context.issue(context.depth.saturating_sub(self.in_flight.len()));
                if count > 0 {
                    self.send(count, now, now, context);
                }
            }
            State::Closed if !context.keep_alive && self.waiting.is_none() && context.issue(1) == 1 => {
                self.waiting = Some(now);
                self.open(context);
            }
            _ => {}
        }
    }

    fn send(&mut self, count: usize, at: u64, due: u64, context: &mut Context) {
        if let Err(broken) = self.try_send(count, at, due, context) {
            self.fail(broken, context);
        }
    }

    /// One write for all of it.
    fn try_send(&mut self, count: usize, at: u64, due: u64, context: &mut Context) -> Result<(), Broken> {
        let Some(socket) = &mut self.socket else { return Ok(()) };
        if let Some(bytes) = context.requests.fixed(count).filter(|_| !socket.is_tls() && self.out.is_empty())
        {
            let is_head = context.requests.only_is_head();
            for _ in 0..count {
                self.in_flight.push_back(Sent { at, due, request: 0, is_head });
            }
            context.tally.bytes_out += bytes.len() as u64;
            let sent = socket.send(bytes)?;
            self.out.extend_from_slice(bytes.get(sent..).unwrap_or_default());
            return Ok(());
        }
        let mut bytes = std::mem::take(&mut context.plain);
        bytes.clear();
        for _ in 0..count {
            let (request, is_head) = context.requests.write_next(&mut bytes, self.index as usize);
            self.in_flight.push_back(Sent { at, due, request, is_head });
        }
        context.tally.bytes_out += bytes.len() as u64;
        let encrypted = socket.encrypt(&bytes, &mut self.out);
        context.plain = bytes;
        encrypted?;
        self.flush()
    }

    fn flush(&mut self) -> Result<(), Broken> {
        let Some(socket) = &self.socket else { return Ok(()) };
        while !self.out.is_empty() {
            match socket.send(&self.out)? {
                0 => return Ok(()),
                sent => drop(self.out.drain(..sent)),
            }
        }
        Ok(())
    }

    /// Forgets the socket. What was on the way is given back: the server said that it would not answer it.
    fn close(&mut self, context: &mut Context) {
        context.give_back(self.in_flight.len() as u64);
        self.in_flight.clear();
        self.reset();
    }

    fn reset(&mut self) {
        self.socket = None;
        self.state = State::Closed;
        self.generation = self.generation.wrapping_add(1);
        self.reader = AnswerReader::default();
        self.first_byte = 0;
        self.answers = 0;
        self.size = self::size::Size::default();
        self.partial.clear();
        self.out.clear();
    }

    /// Counts the failure for each request that dies with the connection, and plans to open it again.
    fn fail(&mut self, broken: Broken, context: &mut Context) {
        let dead = self.in_flight.len() as u64 + u64::from(self.waiting.take().is_some());
        let connecting = matches!(self.state, State::Closed | State::Connecting | State::Handshaking);
        if broken.failure == Failure::Closed {
            context.tally.lives.ended(self.answers, End::WithLoss);
        }
        for _ in 0..dead.max(u64::from(connecting)) {
            context.tally.fail(broken.failure, &broken.message);
        }
        context.outstanding -= dead;
        if dead == 0 && connecting && context.left != u64::MAX {
            // A run of -n requests against a server that went away must end.
            context.left = context.left.saturating_sub(1);
        }
        self.in_flight.clear();
        self.reset();
        let wait = if connecting {
            self.failed_connects = (self.failed_connects + 1).min(10);
            (FIRST_RETRY_NS << (self.failed_connects - 1)).min(LAST_RETRY_NS)
        } else {
            0
        };
        context.reopen.push((context.clock.now() + wait, self.index));
    }

    /// The clock starts: a connection that is open and idle waits for a request, any other is opened again.
    pub(super) fn begin(&mut self, context: &mut Context) {
        self.usual = Usual::default();
        if self.state == State::Open && self.in_flight.is_empty() && self.out.is_empty() {
            return self.fill(context);
        }
        self.in_flight.clear();
        self.waiting = None;
        self.reset();
        self.start(context);
    }

    /// By which the system knows the socket.
    pub(super) fn inode(&self) -> Option<u32> {
        let socket = self.socket.as_ref().filter(|_| self.state == State::Open)?;
        rustix::fs::fstat(socket).ok().map(|found| found.st_ino as u32)
    }

    /// Fails what is older than the limit.
    pub(crate) fn check_timeout(&mut self, now: u64, limit_ns: u64, context: &mut Context) {
        let limit = std::time::Duration::from_nanos(limit_ns);
        let broken = match self.state {
            State::Connecting | State::Handshaking if now.saturating_sub(self.connect_started) > limit_ns => {
                Broken::new(Failure::ConnectTimeout, format!("no connection after {limit:?}"))
            }
            State::Open
                if self.in_flight.front().is_some_and(|sent| now.saturating_sub(sent.at) > limit_ns) =>
            {
                Broken::new(Failure::Timeout, format!("no answer after {limit:?}"))
            }
            _ => return,
        };
        self.fail(broken, context);
    }

    /// At the end of the run: what has no answer yet.
    pub(crate) fn abandon(&mut self, now: u64, context: &mut Context) {
        for sent in self.in_flight.drain(..) {
            context.tally.unfinished(now, sent.at, sent.due);
        }
        if let Some(due) = self.waiting.take() {
            context.tally.unfinished(now, self.connect_started, due);
        }
        self.reset();
    }
}
