//! A worker: one thread, one runtime, its own listeners, pools, buffers and timers.

mod shared;

use std::{
    future::poll_fn,
    io,
    net::SocketAddr,
    os::fd::{OwnedFd, RawFd},
    rc::Rc,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustix::fd::{AsRawFd, FromRawFd};
use tidegate_plugin_api::descriptors;
use tidegate_telemetry::{error_log, limiter::Limiter};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::JoinHandle,
};

use crate::{
    connection, listeners::Doors, progress::Progress, settings::Listen, stall, stats, timers::TICK_MS,
};

pub(crate) use self::shared::Worker;

/// After a successor took over, connections without a request stay that long: a client that just connected, or is
/// about to use its connection again, gets an answer instead of a reset.
const IDLE_GRACE_MS: u64 = 5000;

/// Shared between the workers and the code that stops them.
#[derive(Default)]
pub(crate) struct Signals {
    pub drain: AtomicBool,
    /// A successor accepts from the same sockets.
    pub handed_over: AtomicBool,
    /// Addresses at which no successor accepts, even after a handover.
    pub left: Mutex<Vec<SocketAddr>>,
    /// Workers that still accept.
    pub accepting: AtomicUsize,
    pub stop: AtomicBool,
    /// Some worker was given up: its sockets may stay open although they are not used any more.
    pub gave_up: AtomicBool,
    pub notify: Notify,
}

impl Signals {
    pub(crate) fn ending(&self) -> bool {
        self.drain.load(Ordering::SeqCst) || self.stop.load(Ordering::SeqCst)
    }
}

/// What a worker publishes about itself.
pub(crate) struct Introduction {
    pub progress: &'static Progress,
    /// The kernel's number of the thread.
    pub thread: i32,
    /// Its descriptors of the listening sockets.
    pub doors: Vec<RawFd>,
}

/// The task, its socket, and what the socket is for.
type Accepting = (JoinHandle<()>, Rc<TcpListener>, Listen);

/// A task that accepts for each socket.
fn accept_at(worker: &'static Worker, doors: Doors) -> Vec<Accepting> {
    let mut accepting = Vec::new();
    for (listener, listen) in doors {
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
    accepting
}

/// The life of a worker's thread.
pub(crate) fn run(worker: Worker, doors: Doors, signals: &Arc<Signals>, introduced: &OnceLock<Introduction>) {
    error_log::limit_places();
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
    // One worker per thread for the life of the process: all code on the thread may refer to it.
    let worker: &'static Worker = Box::leak(Box::new(worker));
    let progress = &worker.stalls.progress;
    progress.is_of_this_thread();
    let _ = introduced.set(Introduction {
        progress,
        thread: own_number(),
        doors: doors.iter().map(|(listener, _)| listener.as_raw_fd()).collect(),
    });
    let signals = signals.clone();
    runtime.block_on(async move {
        worker.renew_date();
        tidegate_plugin_api::inner::serve_with(Box::new(move |socket, facts| {
            connection::spawn_inner(worker, socket, facts)
        }));
        let accepting = accept_at(worker, doors);
        let ticking = tokio::task::spawn_local(stall::watched(worker, "the clock", tick(worker)));
        wait_until(&signals.notify, || signals.ending() || progress.is_lost()).await;
        let lost = progress.is_lost();
        if lost {
            error_log::log(
                error_log::Level::Warn,
                format_args!("worker {} recovered after it was replaced; it exits", worker.index),
            );
        }
        let handed_over = signals.handed_over.load(Ordering::SeqCst);
        let left = signals.left.lock().clone();
        for (task, listener, listen) in accepting {
            task.abort();
            let _ = task.await;
            let nobody_else = !lost && (!handed_over || left.contains(&listen.address));
            if nobody_else && let Ok(listener) = Rc::try_unwrap(listener) {
                accept_waiting(worker, listener, &listen, &signals);
            }
        }
        if !lost {
            signals.accepting.fetch_sub(1, Ordering::SeqCst);
        }
        drain(worker, &signals, handed_over && !lost).await;
        ticking.abort();
    });
}

/// Accepts what is left in the queue of a listener: the kernel resets it when the listener closes, and no
/// other worker takes it.
fn accept_waiting(worker: &'static Worker, listener: TcpListener, listen: &Listen, signals: &Signals) {
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
    if signals.gave_up.load(Ordering::SeqCst) {
        // A thread that does not come back has the socket, too: later connections must be refused, not queued.
        let _ = rustix::net::shutdown(&listener, rustix::net::Shutdown::Both);
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
        if !worker.no_new_streams.get() && started.elapsed() >= Duration::from_millis(IDLE_GRACE_MS) {
            worker.no_new_streams.set(true);
            worker.closing_idle.set(true);
            worker.outdated.set(handed_over);
            worker.deadlines.wake_all();
        }
    }
}

pub(crate) async fn wait_until(notify: &Notify, condition: impl Fn() -> bool) {
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
        let accepted = poll_fn(|context| match worker.stalls.progress.is_lost() {
            true => Poll::Pending,
            false => listener.poll_accept(context),
        });
        match accepted.await {
            Ok((stream, peer)) => {
                stats::add(&worker.stats.accepted, 1);
                if !has_place(worker, &stream) {
                    // Those that are closing end meanwhile, and those that came in the same moment turn out to be idle.
                    tokio::task::yield_now().await;
                    if !has_place(worker, &stream) {
                        stats::add(&worker.stats.refused, 1);
                        continue;
                    }
                }
                connection::spawn(worker, stream, peer, &listen);
            }
            Err(error) => {
                // Out of descriptors or memory: wait until some are free instead of spinning.
                error_log::log(
                    error_log::Level::Critical,
                    format_args!("accept on {} failed: {error}", listen.address),
                );
                tokio::time::sleep(Duration::from_millis(TICK_MS)).await;
            }
        }
    }
}

/// Whether one more connection may be served. Closes idle ones where places run out.
fn has_place(worker: &'static Worker, stream: &TcpStream) -> bool {
    let leaving = make_room(worker, stream);
    worker.connections.get().saturating_sub(leaving) < worker.settings.worker_connections
        && descriptors::spare_for_client(stream)
}

/// Idle connections to close at a time.
const EVICTED: usize = 32;

/// Closes the longest idle connections once 15/16 of the connections or descriptors are in use, as nginx does, so that idle clients
/// do not keep others out. Returns how many connections are closing.
fn make_room(worker: &'static Worker, stream: &TcpStream) -> usize {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    let places = worker.settings.worker_connections;
    let is_crowded = worker.connections.get() >= places - (places / 16).max(1).min(places);
    if !is_crowded && !descriptors::is_tight(stream) {
        return 0;
    }
    let leaving = worker.deadlines.evict_idle(EVICTED.min((places / 8).max(1)));
    if leaving > 0 && LIMITER.pass().is_some() {
        error_log::log(
            error_log::Level::Warn,
            format_args!(
                "nearly out of connections: closing idle ones; see worker_connections and ulimit -n"
            ),
        );
    }
    leaving
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
            // Memory of a burst goes back to the system once there is time for it.
            let requests = worker.stats.requests.load(Ordering::Relaxed);
            let busy = std::mem::replace(&mut seen, requests) != requests;
            let ended = worker.memory.is_over();
            if (was_busy && !busy) || ended {
                worker.settings.release_memory.inspect(|release| release());
            }
            was_busy = busy;
            if let Some(log) = &worker.settings.access_log {
                log.tick(worker.index);
            }
        }
    }
}

/// Asks for short time slices, so that a worker that gets something to do runs before other threads that compute on
/// its core, the gateway's own compiler included (Linux 6.12; earlier kernels ignore it).
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

/// The kernel's number of this thread; 0: not known.
fn own_number() -> i32 {
    let link = std::fs::read_link("/proc/thread-self").ok();
    link.and_then(|link| link.file_name()?.to_str()?.parse().ok()).unwrap_or_default()
}

/// Another descriptor of the open file behind the number of another thread's descriptor, which may have been
/// reused by now.
pub(crate) fn duplicate(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call takes no pointers; a number that is not open is an error. The returned descriptor is new, and
    // only we own it.
    unsafe {
        match libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 0) {
            -1 => Err(io::Error::last_os_error()),
            fresh => Ok(OwnedFd::from_raw_fd(fresh)),
        }
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
