//! A worker: one thread, one runtime, its own listeners, pools, buffers and timers.

use std::{
    cell::{Cell, RefCell},
    io,
    net::{SocketAddr, TcpListener as StdListener},
    rc::Rc,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use plugin::{WorkerSnapshot, descriptors};
use telemetry::error_log;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
};
use wire::{RequestHead, ResponseHead};

use crate::{
    Publisher, Settings,
    buffer::Buffers,
    connection,
    http2::pool::Http2Pool,
    listeners::Listeners,
    pool::{Pool, own::OwnPool},
    settings::Listen,
    slow_lane::SlowLane,
    stall::{self, Stalls},
    stats::{self, WorkerStats},
    timers::{Deadlines, TICK_MS},
};

/// What the connections of one worker share. Lives as long as the process.
pub struct Worker {
    pub index: usize,
    pub settings: Settings,
    pub deadlines: Deadlines,
    pub buffers: Buffers,
    pub pool: Pool,
    pub own_pool: OwnPool,
    pub http2_pool: Http2Pool,
    pub stats: Arc<WorkerStats>,
    pub stalls: Stalls,
    pub slow_lane: SlowLane,
    /// Answers say that their connection closes.
    pub draining: Cell<bool>,
    /// Connections without a request close.
    pub closing_idle: Cell<bool>,
    pub connections: Cell<usize>,
    /// Those that have had their answer and wait for the client's end.
    pub lingering: Cell<u32>,
    /// `Date: ... CRLF`, renewed each second.
    pub date_line: RefCell<Vec<u8>>,
    pub server_line: Vec<u8>,
    publisher: Arc<Publisher>,
    snapshot: RefCell<Rc<WorkerSnapshot>>,
    generation: Cell<u64>,
    request_heads: RefCell<Vec<RequestHead>>,
    response_heads: RefCell<Vec<ResponseHead>>,
    request_texts: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    next_connection: Cell<u64>,
}

impl Worker {
    fn new(index: usize, settings: Settings, publisher: Arc<Publisher>, stats: Arc<WorkerStats>) -> Worker {
        let generation = publisher.generation();
        let snapshot = Rc::new(WorkerSnapshot::new(publisher.current()));
        let server_line = format!("Server: {}\r\n", settings.server_token).into_bytes();
        stats.revision.store(snapshot.revision, Ordering::Relaxed);
        Worker {
            index,
            settings,
            deadlines: Deadlines::default(),
            buffers: Buffers::default(),
            pool: Pool::default(),
            own_pool: OwnPool::default(),
            http2_pool: Http2Pool::default(),
            stats,
            stalls: Stalls::of_this_thread(),
            slow_lane: SlowLane::default(),
            draining: Cell::new(false),
            closing_idle: Cell::new(false),
            connections: Cell::new(0),
            lingering: Cell::new(0),
            date_line: RefCell::default(),
            server_line,
            publisher,
            snapshot: RefCell::new(snapshot),
            generation: Cell::new(generation),
            request_heads: RefCell::default(),
            response_heads: RefCell::default(),
            request_texts: RefCell::default(),
            next_connection: Cell::new(1),
        }
    }

    /// The newest configuration.
    pub fn snapshot(&self) -> Rc<WorkerSnapshot> {
        let generation = self.publisher.generation();
        if generation != self.generation.get() {
            let fresh = Rc::new(WorkerSnapshot::new(self.publisher.current()));
            self.generation.set(generation);
            let revision = fresh.revision;
            self.snapshot.replace(fresh);
            // Ordered before the look for somebody who waits: see `Workers::wait_for_revision`.
            self.stats.revision.store(revision, Ordering::SeqCst);
            self.publisher.applied.notify_waiters();
        }
        self.snapshot.borrow().clone()
    }

    pub fn request_head(&self) -> RequestHead {
        self.request_heads.borrow_mut().pop().unwrap_or_default()
    }

    pub fn recycle_request_head(&self, mut head: RequestHead) {
        let mut heads = self.request_heads.borrow_mut();
        if heads.len() < 64 {
            head.clear();
            heads.push(head);
        }
    }

    pub fn response_head(&self) -> ResponseHead {
        self.response_heads.borrow_mut().pop().unwrap_or_default()
    }

    pub fn recycle_response_head(&self, mut head: ResponseHead) {
        let mut heads = self.response_heads.borrow_mut();
        // One without memory is that of an answer, which has taken it over and gives it back later.
        if heads.len() < 64 && (1..=RECYCLED_BYTES).contains(&head.headers.capacity()) {
            head.clear();
            heads.push(head);
        }
    }

    /// For host and path of a request.
    pub fn request_texts(&self) -> (Vec<u8>, Vec<u8>) {
        self.request_texts.borrow_mut().pop().unwrap_or_default()
    }

    pub fn recycle_request_texts(&self, mut host: Vec<u8>, mut path: Vec<u8>) {
        let mut texts = self.request_texts.borrow_mut();
        if texts.len() < 64 && host.capacity() + path.capacity() <= RECYCLED_BYTES {
            host.clear();
            path.clear();
            texts.push((host, path));
        }
    }

    pub fn connection_id(&self) -> u64 {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        // Distinct between workers: the worker's number in the upper bits.
        ((self.index as u64) << 48) | id
    }

    fn renew_date(&self) {
        let mut line = self.date_line.borrow_mut();
        line.clear();
        line.extend_from_slice(b"Date: ");
        line.extend_from_slice(plugin::variables::http_date(std::time::SystemTime::now()).as_bytes());
        line.extend_from_slice(b"\r\n");
    }
}

/// Memory of one head or one request's texts that is kept for the next; more goes back to the allocator.
const RECYCLED_BYTES: usize = 16 * 1024;

/// After a successor took over, connections without a request stay that long: a client that just connected, or is
/// about to use its connection again, gets an answer instead of a reset.
const IDLE_GRACE_MS: u64 = 5000;

/// A worker that something holds up longer than that is not waited for.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(1);

/// Shared between the workers and whoever stops them.
#[derive(Default)]
struct Signals {
    drain: AtomicBool,
    /// Somebody else accepts from the same sockets.
    handed_over: AtomicBool,
    /// Addresses that nobody else accepts at, all the same.
    left: Mutex<Vec<SocketAddr>>,
    /// Workers that still accept.
    accepting: AtomicUsize,
    stop: AtomicBool,
    notify: Notify,
}

/// The running workers.
pub struct Workers {
    threads: Vec<thread::JoinHandle<()>>,
    signals: Arc<Signals>,
    applied: Arc<Notify>,
    /// The listening sockets, as long as they are this process's to hand over.
    kept: Mutex<Vec<StdListener>>,
    pub stats: Vec<Arc<WorkerStats>>,
    pub listening: Vec<Listen>,
}

impl Workers {
    /// No new connections; open ones finish what they are doing.
    pub fn drain(&self) {
        self.kept.lock().clear();
        self.signals.drain.store(true, Ordering::SeqCst);
        self.signals.notify.notify_waiters();
    }

    /// As [`Workers::drain`], when another process accepts from the same sockets: what waits there is left to it,
    /// and connections without a request stay for a while. `left`: addresses that it has no use for.
    pub fn hand_over(&self, left: Vec<SocketAddr>) {
        *self.signals.left.lock() = left;
        self.signals.handed_over.store(true, Ordering::SeqCst);
        self.drain();
        // Returns when that is so: who connects from now on meets the successor.
        let deadline = Instant::now() + ACCEPT_PATIENCE;
        while self.signals.accepting.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// The listening sockets once more, for a successor.
    pub fn sockets(&self) -> io::Result<Vec<StdListener>> {
        self.kept.lock().iter().map(StdListener::try_clone).collect()
    }

    /// Ends at once.
    pub fn stop(&self) {
        self.kept.lock().clear();
        self.signals.stop.store(true, Ordering::SeqCst);
        self.signals.notify.notify_waiters();
    }

    /// Whether every worker has ended.
    pub fn finished(&self) -> bool {
        self.threads.iter().all(thread::JoinHandle::is_finished)
    }

    pub fn join(self) {
        for thread in self.threads {
            let _ = thread.join();
        }
    }

    /// The revision that each worker uses.
    pub fn revisions(&self) -> Vec<u64> {
        self.stats.iter().map(|stats| stats.revision.load(Ordering::SeqCst)).collect()
    }

    /// Resolves when no worker uses an older one. A worker looks with each request, an idle one is
    /// woken.
    pub async fn wait_for_revision(&self, revision: u64) {
        wait_until(&self.applied, || self.revisions().iter().all(|used| *used >= revision)).await;
    }

    /// The oldest revision that some worker still uses.
    pub fn applied_revision(&self) -> u64 {
        self.stats.iter().map(|stats| stats.revision.load(Ordering::Relaxed)).min().unwrap_or(0)
    }
}

/// Starts the workers on sockets that are open.
pub fn start(settings: &Settings, listeners: Listeners, publisher: &Arc<Publisher>) -> io::Result<Workers> {
    let signals = Arc::new(Signals::default());
    signals.accepting.store(listeners.workers.len(), Ordering::SeqCst);
    let mut threads = Vec::new();
    let mut all_stats = Vec::new();
    for (index, listeners) in listeners.workers.into_iter().enumerate() {
        let stats = Arc::new(WorkerStats::default());
        all_stats.push(stats.clone());
        let (settings, publisher, signals) = (settings.clone(), publisher.clone(), signals.clone());
        let thread = thread::Builder::new().name(format!("worker-{index}")).spawn(move || {
            run(Worker::new(index, settings, publisher, stats), listeners, &signals);
        })?;
        threads.push(thread);
    }
    let (kept, listening) = (Mutex::new(listeners.kept), listeners.listening);
    Ok(Workers { threads, signals, applied: publisher.applied.clone(), kept, stats: all_stats, listening })
}

fn run(worker: Worker, listeners: Vec<(std::net::TcpListener, Listen)>, signals: &Arc<Signals>) {
    if worker.settings.cpu_affinity {
        pin(worker.index);
    }
    ask_for_short_slices();
    // Events per wake-up: enough for a busy worker, few enough that one round stays short.
    let runtime = match tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .event_interval(61)
        .max_io_events_per_tick(1024)
        .on_thread_unpark(stall::awake)
        .build_local(Default::default())
    {
        Ok(runtime) => runtime,
        Err(error) => {
            error_log::log(error_log::Level::Emergency, format_args!("worker {}: {error}", worker.index));
            return;
        }
    };
    // One worker per thread for the life of the process: everybody on the thread may refer to it.
    let worker: &'static Worker = Box::leak(Box::new(worker));
    let signals = signals.clone();
    runtime.block_on(async move {
        worker.renew_date();
        let mut accepting = Vec::new();
        for (listener, listen) in listeners {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let listener = Rc::new(listener);
                    let task = tokio::task::spawn_local(stall::watched(
                        worker,
                        "new connections",
                        accept(worker, listener.clone(), listen.clone()),
                    ));
                    accepting.push((task, listener, listen));
                }
                Err(error) => {
                    error_log::log(error_log::Level::Emergency, format_args!("{}: {error}", listen.address))
                }
            }
        }
        let ticking = tokio::task::spawn_local(stall::watched(worker, "the clock", tick(worker)));
        let ending = || signals.drain.load(Ordering::SeqCst) || signals.stop.load(Ordering::SeqCst);
        wait_until(&signals.notify, ending).await;
        let handed_over = signals.handed_over.load(Ordering::SeqCst);
        let left = signals.left.lock().clone();
        for (task, listener, listen) in accepting {
            task.abort();
            let _ = task.await;
            let nobody_else = !handed_over || left.contains(&listen.address);
            if nobody_else && let Ok(listener) = Rc::try_unwrap(listener) {
                accept_waiting(worker, listener, &listen);
            }
        }
        signals.accepting.fetch_sub(1, Ordering::SeqCst);
        drain(worker, &signals, handed_over).await;
        ticking.abort();
    });
}

/// Nobody else will take them: what is in the queue of a listener when it closes is reset.
fn accept_waiting(worker: &'static Worker, listener: TcpListener, listen: &Listen) {
    let Ok(listener) = listener.into_std() else { return };
    while let Ok((stream, peer)) = listener.accept() {
        if worker.connections.get() < worker.settings.worker_connections
            && descriptors::spare_for_client(&stream)
            && stream.set_nonblocking(true).is_ok()
            && let Ok(stream) = TcpStream::from_std(stream)
        {
            stats::add(&worker.stats.accepted, 1);
            connection::spawn(worker, stream, peer, listen);
        }
    }
}

/// Until the last connection has ended, or time is up.
async fn drain(worker: &'static Worker, signals: &Signals, handed_over: bool) {
    worker.draining.set(true);
    worker.closing_idle.set(!handed_over);
    worker.deadlines.wake_all();
    let started = Instant::now();
    let limit = Duration::from_millis(worker.settings.shutdown_timeout_ms);
    while worker.connections.get() > 0 && started.elapsed() < limit && !signals.stop.load(Ordering::SeqCst) {
        let _ = tokio::time::timeout(Duration::from_millis(TICK_MS), signals.notify.notified()).await;
        if !worker.closing_idle.get() && started.elapsed() >= Duration::from_millis(IDLE_GRACE_MS) {
            worker.closing_idle.set(true);
            worker.deadlines.wake_all();
        }
    }
}

async fn wait_until(notify: &Notify, condition: impl Fn() -> bool) {
    loop {
        let notified = notify.notified();
        tokio::pin!(notified);
        notified.as_mut().enable();
        if condition() {
            return;
        }
        notified.await;
    }
}

async fn accept(worker: &'static Worker, listener: Rc<TcpListener>, listen: Listen) {
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => {
                stats::add(&worker.stats.accepted, 1);
                if worker.connections.get() >= worker.settings.worker_connections
                    || !descriptors::spare_for_client(&stream)
                {
                    stats::add(&worker.stats.refused, 1);
                    continue;
                }
                connection::spawn(worker, stream, peer, &listen);
            }
            Err(error) => {
                // Out of descriptors or memory: wait for some to come back instead of spinning.
                error_log::log(
                    error_log::Level::Critical,
                    format_args!("accept on {} failed: {error}", listen.address),
                );
                tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            }
        }
    }
}

/// Moves the worker's clock and takes a new snapshot; once a second renews the date, closes old upstream connections.
async fn tick(worker: &'static Worker) {
    let started = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(TICK_MS));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut second = 0;
    let (mut seen, mut was_busy) = (0, false);
    let mut expected = started;
    loop {
        tokio::select! {
            _ = interval.tick() => {}
            () = worker.publisher.published.notified() => {
                worker.snapshot();
                continue;
            }
        }
        let now = Instant::now();
        let late = now.saturating_duration_since(expected).as_micros() as u64;
        expected = now + Duration::from_millis(TICK_MS);
        worker.stats.stall_us.fetch_max(late, Ordering::Relaxed);
        worker.stalls.look();
        let now_ms = now.duration_since(started).as_millis() as u64;
        worker.deadlines.tick(now_ms);
        worker.snapshot();
        if now_ms / 1000 != second {
            second = now_ms / 1000;
            worker.renew_date();
            worker.pool.sweep(now_ms);
            worker.own_pool.sweep(now_ms);
            worker.http2_pool.sweep(now_ms);
            worker.buffers.trim();
            // What a burst left behind goes back to the system once there is time for it.
            let requests = worker.stats.requests.load(Ordering::Relaxed);
            let busy = std::mem::replace(&mut seen, requests) != requests;
            if let (true, false, Some(release)) = (was_busy, busy, worker.settings.release_memory) {
                release();
            }
            was_busy = busy;
            if let Some(log) = &worker.settings.access_log {
                log.tick(worker.index);
            }
        }
    }
}

/// Asks for short time slices, so that a worker that gets something to do is run before whoever computes on its core,
/// the gateway's own compiler included (Linux 6.12; earlier kernels ignore it).
fn ask_for_short_slices() {
    /// `struct sched_attr` of sched_setattr(2), first version.
    #[repr(C)]
    struct Attributes {
        size: u32,
        policy: u32,
        flags: u64,
        nice: i32,
        priority: u32,
        runtime_ns: u64,
        deadline_ns: u64,
        period_ns: u64,
    }
    let attributes = Attributes {
        size: size_of::<Attributes>() as u32,
        policy: libc::SCHED_OTHER as u32,
        flags: 0,
        nice: 0,
        priority: 0,
        runtime_ns: 100_000,
        deadline_ns: 0,
        period_ns: 0,
    };
    // SAFETY: the kernel reads `size` bytes of a struct that lives on this stack, for the calling thread.
    unsafe {
        libc::syscall(libc::SYS_sched_setattr, 0, &attributes as *const Attributes, 0);
    }
}

/// Best effort: a container may not allow it.
fn pin(index: usize) {
    let cpus = thread::available_parallelism().map_or(1, std::num::NonZero::get);
    // SAFETY: the set is a plain bit array that lives on this stack; the call only reads it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(index % cpus, &mut set);
        libc::sched_setaffinity(0, std::mem::size_of::<libc::cpu_set_t>(), &set);
    }
}
