//! What ends workers.

use std::{
    net::SocketAddr,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
};

use parking_lot::Mutex;
use tokio::sync::Notify;

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
