//! A worker: one thread, one runtime, its own listeners, pools, buffers and timers.

mod accepting;
mod shared;
mod signals;

use std::{
    io,
    os::fd::{OwnedFd, RawFd},
    sync::{Arc, OnceLock, atomic::Ordering},
    thread,
    time::{Duration, Instant},
};

use rustix::fd::{AsRawFd, FromRawFd};
use tidegate_telemetry::error_log;
use tokio::sync::Notify;

use crate::{
    accept_balance::AcceptBalance, connection, listeners::Doors, progress::Progress, stall, timers::TICK_MS,
};

use self::accepting::{Ended, accept_at, end_accepting, take_passed};
pub(crate) use self::shared::Worker;
pub(crate) use self::signals::Signals;

/// After a successor took over, connections without a request stay that long: a client that just connected, or is
/// about to use its connection again, gets an answer instead of a reset.
const IDLE_GRACE_MS: u64 = 5000;

/// Sessions whose time is up have so long to end.
const CUT_MS: u64 = 1000;

/// What a worker publishes about itself.
pub(crate) struct Introduction {
    pub progress: &'static Progress,
    /// The kernel's number of the thread.
    pub thread: i32,
    /// Its descriptors of the listening sockets.
    pub doors: Vec<RawFd>,
}

/// The life of a worker's thread.
pub(crate) fn run(
    worker: Worker,
    doors: Doors,
    balance: Arc<AcceptBalance>,
    signals: &Arc<Signals>,
    introduced: &OnceLock<Introduction>,
) {
    error_log::limit_places();
    if worker.settings.cpu_affinity {
        pin(worker.index);
    }
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
        let accepting = accept_at(worker, doors, &balance);
        let taking = stall::watched(worker, "connections passed on", take_passed(worker, balance.clone()));
        let taking = tokio::task::spawn_local(taking);
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
        let doors = Ended { accepting, taking, lost, handed_over };
        end_accepting(worker, doors, &balance, &signals).await;
        drain(worker, &signals, handed_over && !lost).await;
        ticking.abort();
    });
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
    cut_sessions(worker).await;
}

/// Ends the sessions that are left, so that each has its line in the log.
async fn cut_sessions(worker: &'static Worker) {
    let started = Instant::now();
    worker.cutting.set(true);
    worker.deadlines.wake_all();
    while worker.sessions.get() > 0 && started.elapsed() < Duration::from_millis(CUT_MS) {
        tokio::task::yield_now().await;
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

/// Moves the worker's clock and takes a new snapshot; once a second renews the date, closes old upstream connections.
async fn tick(worker: &'static Worker) {
    let started = Instant::now();
    let mut interval = tokio::time::interval(Duration::from_millis(TICK_MS));
    interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut second = 0;
    let (mut seen, mut was_busy) = (0, false);
    let mut accepted_before = 0;
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
        worker.stalls.read_schedule();
        let now_ms = now.duration_since(started).as_millis() as u64;
        worker.deadlines.tick(now_ms);
        worker.snapshot();
        if now_ms / 1000 != second {
            second = now_ms / 1000;
            worker.renew_date();
            let accepted = worker.stats.accepted.load(Ordering::Relaxed);
            worker.load.set_tolerance(accepted - std::mem::replace(&mut accepted_before, accepted));
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
            if let Some(log) = &worker.settings.stream.log {
                log.tick(worker.index);
            }
        }
    }
}

/// Asks for short time slices, for this thread and those that it makes (Linux 6.12; earlier kernels ignore it). A worker that gets something to
/// do runs before threads of other programs that compute on its core. A thread in the background that yields gives up the rest
/// of its slice: of the usual one that is ten times as long as its turn, and on a busy core it would have that much less.
pub fn ask_for_short_slices() {
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
        // As this thread was started with: 0 would undo a `Nice=` of the service.
        nice: rustix::process::getpriority_process(None).unwrap_or_default(),
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
