//! The workers together: started, counted, stopped, and each in its place.
//!
//! A place (`Seat`) has a number and listening sockets for as long as the process accepts. The worker that has it may be
//! given up by the [`crate::watchdog`]; then a new one takes the place, and the old one is remembered until it ends.

use std::{
    io,
    net::{SocketAddr, TcpListener as StdListener},
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

pub use super::crew::Stuck;
use super::crew::{Crew, Running, Seat};
use crate::{
    Listeners, Publisher, Settings,
    listeners::{Doors, once_more},
    runtime::Runtime,
    settings::Listen,
    stats::WorkerStats,
    watchdog,
    worker::{self, Worker, wait_until},
};

/// A worker that is held up for longer is not waited for.
const ACCEPT_PATIENCE: Duration = Duration::from_secs(1);

/// The running workers.
pub struct Workers {
    crew: Arc<Crew>,
    /// Addresses with the ports that the system chose.
    pub listening: Vec<Listen>,
}

/// The counters of a place.
pub struct SeatStats {
    /// The counters of the worker that has it.
    pub present: Option<Arc<WorkerStats>>,
    /// The counters of earlier workers.
    pub past: Vec<Arc<WorkerStats>>,
}

impl SeatStats {
    /// The sum of a counter over all workers that had the place.
    pub fn count(&self, of: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.all().map(|stats| of(stats).load(Ordering::Relaxed)).sum()
    }

    /// The present value of a gauge. Connections of a worker that was given up are shut down.
    pub fn gauge(&self, of: impl Fn(&WorkerStats) -> &AtomicU64) -> u64 {
        self.present.as_ref().map_or(0, |stats| of(stats).load(Ordering::Relaxed))
    }

    /// The present one first.
    pub fn all(&self) -> impl Iterator<Item = &WorkerStats> {
        self.present.iter().chain(&self.past).map(AsRef::as_ref)
    }
}

/// The deepest use is Lua's: a test of `plugins` measures it (`lua/depth_tests.rs`) and asks for a margin of eight times.
/// Only what is touched takes memory.
const STACK_BYTES: usize = 4 << 20;

/// Starts the workers on sockets that are open.
pub fn start(settings: &Settings, listeners: Listeners, publisher: &Arc<Publisher>) -> io::Result<Workers> {
    // Ports of streams as well: their sessions may lead to a port of ours for HTTP.
    tidegate_plugin_api::hops::install(
        listeners.listening.iter().filter(|listen| !listen.is_udp()).map(|listen| listen.address.port()),
        settings.max_own_hops,
    );
    tidegate_plugin_api::reroute::install(crate::matching::route_of);
    let crew = Arc::new(Crew {
        settings: settings.clone(),
        publisher: publisher.clone(),
        signals: Arc::default(),
        balance: Arc::default(),
        seats: Mutex::default(),
        stuck: Mutex::default(),
    });
    crew.signals.accepting.store(listeners.workers.len(), Ordering::SeqCst);
    let seats = listeners.workers.into_iter().zip(listeners.kept).enumerate();
    for (index, (own, doors)) in seats {
        let running = crew.seat(index, 0, own)?;
        let seat =
            Seat { index, turn: 1, doors, running: Some(running), lost: Vec::new(), ended: Vec::new() };
        crew.seats.lock().push(seat);
    }
    Ok(Workers { crew, listening: listeners.listening })
}

impl Crew {
    fn seat(&self, index: usize, turn: u64, doors: Doors) -> io::Result<Running> {
        let (stats, introduced) = (Arc::new(WorkerStats::default()), Arc::new(OnceLock::new()));
        // The worker will take this one, or a newer one.
        stats.revision.store(self.publisher.current().revision, Ordering::SeqCst);
        let (settings, publisher) = (self.settings.clone(), self.publisher.clone());
        let (signals, counters, introduction) = (self.signals.clone(), stats.clone(), introduced.clone());
        let balance = self.balance.clone();
        let builder = thread::Builder::new().name(format!("worker-{index}")).stack_size(STACK_BYTES);
        let thread = builder.spawn(move || {
            let load = balance.enter(index);
            let worker = Worker::new(Runtime::new(index, turn, settings, publisher, counters, load));
            worker::run(worker, doors, balance, &signals, &introduction);
        })?;
        Ok(Running { thread, stats, introduced, watched: crate::crew::Watched::default() })
    }

    /// A new worker in a place that is empty, with the same sockets.
    pub(crate) fn fill(&self, seat: &mut Seat) -> io::Result<()> {
        seat.running = Some(self.seat(seat.index, seat.turn, once_more(&seat.doors)?)?);
        seat.turn += 1;
        Ok(())
    }
}

impl Workers {
    /// Starts the watchdog on its own thread. Each time workers are given up, it calls `tell` with their number so far.
    pub fn watch(&self, tell: impl Fn(u64) + Send + 'static) -> io::Result<()> {
        watchdog::start(self.crew.clone(), tell)
    }

    /// No new connections; open ones finish what they are doing.
    pub fn drain(&self) {
        self.let_go();
        self.crew.signals.drain.store(true, Ordering::SeqCst);
        self.crew.signals.notify.notify_waiters();
    }

    /// As [`Workers::drain`], when another process accepts from the same sockets: what waits there is left to it,
    /// and connections without a request stay for a while. `left`: addresses that the other process does not use.
    pub fn hand_over(&self, left: Vec<SocketAddr>) {
        let signals = &self.crew.signals;
        *signals.left.lock() = left;
        signals.handed_over.store(true, Ordering::SeqCst);
        self.drain();
        // Returns once no worker accepts: new connections reach the successor.
        let deadline = Instant::now() + ACCEPT_PATIENCE;
        while signals.accepting.load(Ordering::SeqCst) > 0 && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(1));
        }
    }

    /// Duplicates of the listening sockets, for a successor.
    pub fn sockets(&self) -> io::Result<Vec<StdListener>> {
        let seats = self.crew.seats.lock();
        seats.iter().flat_map(|seat| &seat.doors).map(|(socket, _)| socket.try_clone()).collect()
    }

    /// Ends at once.
    pub fn stop(&self) {
        self.let_go();
        self.crew.signals.stop.store(true, Ordering::SeqCst);
        self.crew.signals.notify.notify_waiters();
    }

    fn let_go(&self) {
        self.crew.seats.lock().iter_mut().for_each(|seat| seat.doors.clear());
    }

    /// Whether every worker has ended. Those that were given up are not waited for.
    pub fn finished(&self) -> bool {
        self.crew.seats.lock().iter().all(|seat| seat.running.as_ref().is_none_or(Running::has_ended))
    }

    /// Threads that were given up and have not come back.
    pub fn lost_threads(&self) -> usize {
        let seats = self.crew.seats.lock();
        seats.iter().flat_map(|seat| &seat.lost).filter(|lost| !lost.has_ended()).count()
    }

    /// How many workers were given up, by what held them.
    pub fn stuck(&self) -> Vec<(Stuck, u64)> {
        self.crew.stuck.lock().iter().map(|(stuck, count)| (stuck.clone(), *count)).collect()
    }

    /// Place by place.
    pub fn stats(&self) -> Vec<SeatStats> {
        let of = |seat: &Seat| SeatStats {
            present: seat.running.as_ref().map(|running| running.stats.clone()),
            past: seat.lost.iter().map(|lost| &lost.stats).chain(&seat.ended).cloned().collect(),
        };
        self.crew.seats.lock().iter().map(of).collect()
    }

    /// The revision that each worker uses. A worker that was given up keeps its revision, and answers no
    /// client.
    pub fn revisions(&self) -> Vec<u64> {
        let seats = self.crew.seats.lock();
        let running = seats.iter().filter_map(|seat| seat.running.as_ref());
        running.map(|running| running.stats.revision.load(Ordering::SeqCst)).collect()
    }

    /// Resolves when no worker uses an older one. A worker looks with each request, an idle one is
    /// woken.
    pub async fn wait_for_revision(&self, revision: u64) {
        let applied = self.crew.publisher.applied.clone();
        wait_until(&applied, || self.revisions().iter().all(|used| *used >= revision)).await;
    }
}
