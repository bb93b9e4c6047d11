//! The end of a run: the server is looked at while its connections are still open. Threads of a server that has one for each
//! connection end with them, and take their CPU time with them.
//!
//! To look takes milliseconds on a machine with many processes, so a separate thread does it: answers that come
//! meanwhile are read when they come.

use std::{
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::Builder,
    time::Duration,
};

use super::watched::Watched;
use crate::outcome::Server;

/// A thread that does not come to the end does not keep the others.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    seconds: f64,
    server: Option<Server>,
    is_over: bool,
}

#[derive(Debug)]
pub(super) struct Ending {
    threads: usize,
    state: Mutex<State>,
    changed: Condvar,
}

impl Ending {
    pub(super) fn of(threads: usize) -> Ending {
        Ending { threads, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Sets the server to look at in the end.
    pub(super) fn watch(self: &Arc<Self>, server: Option<Watched>) {
        let looks = server.and_then(|watched| {
            let ending = Arc::clone(self);
            Builder::new().name("load-end".into()).spawn(move || ending.wait_for_end(watched)).ok()
        });
        if looks.is_none() {
            self.seen(None);
        }
    }

    fn wait_for_end(&self, watched: Watched) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let all = self.changed.wait_while(state, |state| state.arrived < self.threads);
        let seconds = all.unwrap_or_else(PoisonError::into_inner).seconds;
        self.seen(Some(watched.over(seconds)));
    }

    fn seen(&self, server: Option<Server>) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        (state.server, state.is_over) = (server, true);
        self.changed.notify_all();
    }

    /// A thread has done its work, after so many seconds.
    pub(super) fn arrive(&self, seconds: f64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        state.seconds = state.seconds.max(seconds);
        self.changed.notify_all();
    }

    /// Returns when connections may be closed.
    pub(super) fn wait(&self) {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(state, PATIENCE, |state| !state.is_over);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn server(&self) -> Option<Server> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).server.take()
    }
}
