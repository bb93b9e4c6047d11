//! A worker without its pools: clock, buffers, timers, the configuration in use and counters.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    sync::{Arc, atomic::Ordering},
};

use tidegate_plugin_api::WorkerSnapshot;
use tidegate_protocol::{Head, RequestHead, ResponseHead};

use crate::{
    Publisher, Settings,
    accept_balance::Load,
    buffer::Buffers,
    field_line::{self, FieldLine},
    peak::Peak,
    slow_lane::SlowLane,
    stall::record::Stalls,
    stats::WorkerStats,
    timers::Deadlines,
    turns::Turns,
};

/// What all code on a worker may use. Lives as long as the process.
pub(crate) struct Runtime {
    pub index: usize,
    pub settings: Settings,
    pub(crate) deadlines: Deadlines,
    pub buffers: Buffers,
    pub(crate) memory: Peak,
    pub stats: Arc<WorkerStats>,
    /// Its connections, as the workers that pass some on see them.
    pub(crate) load: Arc<Load>,
    pub stalls: Stalls,
    pub(crate) slow_lane: SlowLane,
    pub(crate) turns: Turns,
    /// Answers announce that their connection closes.
    pub draining: Cell<bool>,
    /// Connections without a request close.
    pub(crate) closing_idle: Cell<bool>,
    /// HTTP/2 clients have been sent GOAWAY, and have had time to receive it.
    pub(crate) no_new_streams: Cell<bool>,
    /// The snapshot is no longer the newest configuration: an incomplete head is not waited for.
    pub outdated: Cell<bool>,
    pub connections: Cell<usize>,
    /// Open sessions of stream routes.
    pub(crate) sessions: Cell<usize>,
    /// They end at once: the time of the drain is up.
    pub(crate) cutting: Cell<bool>,
    /// Those that have had their answer and wait for the client's end.
    pub lingering: Cell<u32>,
    /// Renewed each second.
    pub(crate) date_line: RefCell<FieldLine>,
    pub(crate) server_line: FieldLine,
    pub(crate) publisher: Arc<Publisher>,
    snapshot: RefCell<Rc<WorkerSnapshot>>,
    generation: Cell<u64>,
    request_heads: RefCell<Vec<RequestHead>>,
    response_heads: RefCell<Vec<ResponseHead>>,
    request_texts: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    early_headers: RefCell<Vec<Head>>,
    next_connection: Cell<u64>,
}

impl Runtime {
    /// `turn`: how many had this place before.
    pub(crate) fn new(
        index: usize,
        turn: u64,
        settings: Settings,
        publisher: Arc<Publisher>,
        stats: Arc<WorkerStats>,
        load: Arc<Load>,
    ) -> Runtime {
        let generation = publisher.generation();
        let snapshot = Rc::new(WorkerSnapshot::new(publisher.current()));
        let server_line = FieldLine::new(&field_line::SERVER, &settings.server_token);
        stats.revision.store(snapshot.revision, Ordering::Relaxed);
        Runtime {
            index,
            settings,
            deadlines: Deadlines::default(),
            buffers: Buffers::default(),
            memory: Peak::default(),
            stats,
            load,
            stalls: Stalls::of_this_thread(),
            slow_lane: SlowLane::default(),
            turns: Turns::default(),
            draining: Cell::new(false),
            closing_idle: Cell::new(false),
            no_new_streams: Cell::new(false),
            outdated: Cell::new(false),
            connections: Cell::new(0),
            sessions: Cell::new(0),
            cutting: Cell::new(false),
            lingering: Cell::new(0),
            date_line: RefCell::new(FieldLine::new(&field_line::DATE, "")),
            server_line,
            publisher,
            snapshot: RefCell::new(snapshot),
            generation: Cell::new(generation),
            request_heads: RefCell::default(),
            response_heads: RefCell::default(),
            request_texts: RefCell::default(),
            early_headers: RefCell::default(),
            // Distinct from those of a worker before it.
            next_connection: Cell::new(turn << 40 | 1),
        }
    }

    /// The newest configuration.
    pub(crate) fn snapshot(&self) -> Rc<WorkerSnapshot> {
        let generation = self.publisher.generation();
        if generation != self.generation.get() {
            let fresh = Rc::new(WorkerSnapshot::new(self.publisher.current()));
            self.generation.set(generation);
            let revision = fresh.revision;
            self.snapshot.replace(fresh);
            // Ordered before the check for waiters: see `Workers::wait_for_revision`.
            self.stats.revision.store(revision, Ordering::SeqCst);
            self.publisher.applied.notify_waiters();
        }
        self.snapshot.borrow().clone()
    }

    pub(crate) fn request_head(&self) -> RequestHead {
        self.request_heads.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn recycle_request_head(&self, mut head: RequestHead) {
        let mut heads = self.request_heads.borrow_mut();
        if heads.len() < 64 {
            head.clear();
            heads.push(head);
        }
    }

    pub(crate) fn response_head(&self) -> ResponseHead {
        self.response_heads.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn recycle_response_head(&self, mut head: ResponseHead) {
        let mut heads = self.response_heads.borrow_mut();
        // A head without memory: an answer has taken the memory over and gives it back later.
        if heads.len() < 64 && (1..=RECYCLED_BYTES).contains(&head.headers.capacity()) {
            head.clear();
            heads.push(head);
        }
    }

    /// For host and path of a request.
    pub(crate) fn request_texts(&self) -> (Vec<u8>, Vec<u8>) {
        self.request_texts.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn recycle_request_texts(&self, mut host: Vec<u8>, mut path: Vec<u8>) {
        let mut texts = self.request_texts.borrow_mut();
        if texts.len() < 64 && host.capacity() + path.capacity() <= RECYCLED_BYTES {
            host.clear();
            path.clear();
            texts.push((host, path));
        }
    }

    /// For what plugins set of an answer before there is one; with memory once some have.
    pub(crate) fn early_headers(&self) -> Head {
        self.early_headers.borrow_mut().pop().unwrap_or_default()
    }

    pub(crate) fn recycle_early_headers(&self, mut headers: Head) {
        let mut kept = self.early_headers.borrow_mut();
        if (1..=RECYCLED_BYTES).contains(&headers.capacity()) && kept.len() < 64 {
            headers.clear();
            kept.push(headers);
        }
    }

    pub(crate) fn connection_id(&self) -> u64 {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        // Distinct between workers: the worker's number in the upper bits.
        ((self.index as u64) << 48) | id
    }

    pub(crate) fn renew_date(&self) {
        let date = tidegate_plugin_api::variables::http_date(std::time::SystemTime::now());
        self.date_line.borrow_mut().set(&date);
    }
}

/// Memory of one head or one request's texts that is kept for the next; more goes back to the allocator.
const RECYCLED_BYTES: usize = 16 * 1024;
