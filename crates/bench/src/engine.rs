//! Runs a plan: one thread per `-t`, each with its share of the connections, and nothing shared while they work.

mod answer;
mod answered;
mod beyond;
pub mod clock;
mod connection;
mod context;
mod dial;
mod ending;
pub mod failure;
mod gather;
mod harvest;
mod histogram;
mod http2;
mod lasting;
pub(super) mod lives;
mod local;
mod pace;
pub mod parts;
mod poll;
mod portion;
pub mod slot;
mod socket;
mod start;
pub mod tally;
mod warm_up;
mod watched;
mod worker;

use std::{
    collections::VecDeque,
    sync::{
        Arc, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::JoinHandle,
};

use self::{harvest::ThreadResult, start::Start};
use crate::{
    Outcome, Plan, Problem, Protocol,
    request::{Http1, Request},
    system::{Counters, find_listener},
};
use clock::Clock;
use context::{Context, Requests};
use ending::Ending;
use portion::Portion;
use slot::Slot;
use tally::SharedSlots;
use watched::Watched;
use worker::Worker;

/// From so many connections of a thread on, what is gained by taking several answers together outweighs the moment
/// that one of them waits.
const CROWD: usize = 16;

/// A run under way.
pub struct Running {
    plan: Arc<Plan>,
    threads: Vec<JoinHandle<Result<ThreadResult, Problem>>>,
    slots: Vec<SharedSlots>,
    stop: Arc<AtomicBool>,
    clock: Clock,
    before: Counters,
    ending: Arc<Ending>,
}

/// Begins a run. `stop` ends it early; signal handlers may set it.
pub fn start(plan: Plan, stop: Arc<AtomicBool>) -> Result<Running, Problem> {
    plan.check()?;
    let server = plan.addresses.first().and_then(|&address| find_listener(address));
    launch(plan, stop, server.map(Watched::new))
}

/// As [`start`], without looking for the server on this machine, which takes time.
pub(crate) fn start_unwatched(plan: Plan, stop: Arc<AtomicBool>) -> Result<Running, Problem> {
    plan.check()?;
    launch(plan, stop, None)
}

fn launch(plan: Plan, stop: Arc<AtomicBool>, mut server: Option<Watched>) -> Result<Running, Problem> {
    let plan = Arc::new(plan);
    let mut before = Counters::read();
    let mut clock = self::start::common_start();
    let ending = Arc::new(Ending::of(plan.threads));
    let start = plan.warms_up().then(|| Arc::new(Start::of(plan.threads)));
    let (mut threads, mut slots, mut works) = (Vec::new(), Vec::new(), Vec::new());
    for thread in 0..plan.threads {
        // All are made before the first runs: what fails here would leave the others waiting for it.
        let portion = Portion::of(&plan, thread, clock, &stop, &ending)?;
        slots.push(Arc::clone(&portion.slots));
        let work: Work = if plan.options.lasting() {
            let worker = lasting::Worker::new(portion)?;
            Box::new(move || worker.run())
        } else if plan.protocol == Protocol::Http2 {
            let worker = http2::Worker::new(portion, start.clone())?;
            Box::new(move || worker.run())
        } else {
            let worker = worker(portion, start.clone())?;
            Box::new(move || worker.run())
        };
        works.push(work);
    }
    if start.is_none() {
        ending.watch(server.take());
    }
    for (thread, work) in works.into_iter().enumerate() {
        // Where one cannot be started the others wait for it, and the process ends with this message.
        threads.push(spawn(thread, work)?);
    }
    if let Some(start) = start {
        start.lead(|| {
            before = Counters::read();
            server = server.take().map(Watched::again);
            ending.watch(server.take());
        });
        clock = start.clock.get().copied().unwrap_or(clock);
    }
    Ok(Running { plan, threads, slots, stop, clock, before, ending })
}

type Work = Box<dyn FnOnce() -> Result<ThreadResult, Problem> + Send>;
type Worked = JoinHandle<Result<ThreadResult, Problem>>;

fn spawn(thread: usize, work: Work) -> Result<Worked, Problem> {
    let spawned = std::thread::Builder::new().name(format!("load-{thread}")).spawn(work);
    spawned.map_err(|error| Problem::failed(format!("cannot start a thread: {error}")))
}

impl Running {
    /// Whether all threads have ended.
    pub fn is_finished(&self) -> bool {
        self.threads.iter().all(JoinHandle::is_finished)
    }

    /// Since the start.
    pub fn elapsed_seconds(&self) -> f64 {
        self.clock.now() as f64 / 1e9
    }

    /// The slots from `from` on, all threads together, as far as they are finished.
    pub fn slots_since(&self, from: usize) -> Slot {
        let mut sum = Slot::default();
        for shared in &self.slots {
            let slots = shared.lock().unwrap_or_else(PoisonError::into_inner);
            slots.iter().skip(from).for_each(|slot| sum.add(slot));
        }
        sum
    }

    /// How many slots are finished.
    pub fn slots(&self) -> usize {
        let lengths =
            self.slots.iter().map(|shared| shared.lock().unwrap_or_else(PoisonError::into_inner).len());
        lengths.min().unwrap_or(0)
    }

    /// Waits for the threads and gathers what they saw.
    pub fn finish(self) -> Result<Outcome, Problem> {
        let mut harvests = Vec::new();
        for thread in self.threads {
            let harvest =
                thread.join().map_err(|_| Problem::failed("a thread of the load generator panicked"))?;
            harvests.push(harvest?);
        }
        let mut outcome = gather::outcome(&self.plan, harvests, &self.slots);
        outcome.counters = Counters::read().since(&self.before);
        outcome.interrupted = self.stop.load(Relaxed);
        outcome.server = self.ending.server();
        Ok(outcome)
    }
}

impl std::fmt::Debug for Running {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Running").field("plan", &self.plan).finish_non_exhaustive()
    }
}

fn worker(portion: Portion, start: Option<Arc<Start>>) -> Result<Worker, Problem> {
    let Portion { plan, thread, clock, slots, stop, ending, connections, left, pace, tally, server_name } =
        portion;
    let form = match plan.protocol {
        Protocol::Http1(form) => form,
        // Not asked for here; see `http2`.
        Protocol::Http2 => Http1 { version_10: false, keep_alive: true },
    };
    let host = plan.origin.host_field();
    let requests: Result<Vec<Request>, Problem> =
        plan.requests.iter().map(|spec| Request::new(spec, &host, form)).collect();
    let is_crowd = connections >= CROWD;
    let ahead = form.keep_alive && plan.pipeline == 1 && plan.rate.is_none() && plan.tls.is_none();
    // What it does for acknowledgements only TCP has.
    let ahead = ahead && plan.options.unix.is_none();
    let context = Context {
        keep_alive: form.keep_alive,
        depth: plan.pipeline,
        server_name,
        clock,
        poll: poll::Poll::new(plan.rate.is_some(), is_crowd)?,
        receive: Context::new_receive_buffer(),
        plain: Vec::new(),
        parser: Default::default(),
        requests: Requests::new(requests?, &plan, thread),
        tally,
        pace,
        idle: VecDeque::new(),
        refill: Vec::new(),
        ahead: ahead && is_crowd,
        undecided: Vec::new(),
        reopen: Vec::new(),
        left,
        outstanding: 0,
        stopping: false,
        is_warming: false,
        plan,
    };
    let start = start.map(|start| (start, slots));
    Ok(Worker::new(context, connections, stop, start, ending))
}
