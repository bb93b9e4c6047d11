//! The places of workers, and the workers that hold them.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
    thread::JoinHandle,
    time::Duration,
};

use parking_lot::Mutex;

use crate::{
    Publisher, Settings,
    accept_balance::AcceptBalance,
    listeners::Doors,
    schedule::Scheduled,
    stats::WorkerStats,
    worker::{Introduction, Signals},
};

/// What the watchdog shares with the holder of [`Workers`].
pub(crate) struct Crew {
    pub(super) settings: Settings,
    pub publisher: Arc<Publisher>,
    pub signals: Arc<Signals>,
    pub(super) balance: Arc<AcceptBalance>,
    pub seats: Mutex<Vec<Seat>>,
    /// Workers that were given up, by what held them.
    pub stuck: Mutex<BTreeMap<Stuck, u64>>,
}

pub(crate) struct Seat {
    pub index: usize,
    /// How many workers it has had.
    pub(super) turn: u64,
    /// Duplicates of the listening sockets, as long as this process may hand them over.
    pub(super) doors: Doors,
    /// `None`: the worker was given up, and a new one could not be started yet.
    pub running: Option<Running>,
    /// Given up, and not back.
    pub lost: Vec<Running>,
    /// Given up, and ended since.
    pub ended: Vec<Arc<WorkerStats>>,
}

pub(crate) struct Running {
    pub(super) thread: JoinHandle<()>,
    pub stats: Arc<WorkerStats>,
    /// Empty until the thread has begun.
    pub(crate) introduced: Arc<OnceLock<Introduction>>,
    pub watched: Watched,
}

impl Running {
    pub(crate) fn has_ended(&self) -> bool {
        self.thread.is_finished()
    }
}

/// What a worker was doing when it was given up.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stuck {
    /// Index of the worker.
    pub worker: usize,
    /// The route's id; empty if none was found yet.
    pub route: Arc<str>,
    /// Empty: none.
    pub plugin: &'static str,
}

/// The watchdog's record of a worker between two looks.
#[derive(Debug, Default)]
pub(crate) struct Watched {
    pub(super) polls: u32,
    pub(super) scheduled: Option<Scheduled>,
    pub(super) held_up: Duration,
    /// It was reported, and could not be given up.
    pub(super) named: bool,
}
