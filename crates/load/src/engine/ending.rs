//! The end of a run: the server is looked at while its connections are still open. Threads of a server that has one for each
//! connection end with them, and take their CPU time with them.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Duration,
};

use super::watched::Watched;
use crate::outcome::Server;

/// A thread that does not come to the end does not keep the others.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Default)]
struct State {
    arrived: usize,
    watched: Option<Watched>,
    server: Option<Server>,
    is_over: bool,
}

#[derive(Debug)]
pub struct Ending {
    threads: usize,
    state: Mutex<State>,
    over: Condvar,
}

impl Ending {
    pub fn of(threads: usize) -> Ending {
        Ending { threads, state: Mutex::default(), over: Condvar::new() }
    }

    pub fn watch(&self, server: Option<Watched>) {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).watched = server;
    }

    /// A thread has done its work, after so many seconds. Returns when the server has been looked at.
    pub fn arrive(&self, seconds: f64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.arrived += 1;
        if state.arrived == self.threads {
            state.server = state.watched.take().map(|watched| watched.over(seconds));
            state.is_over = true;
            self.over.notify_all();
        } else {
            let waited = self.over.wait_timeout_while(state, PATIENCE, |state| !state.is_over);
            drop(waited.unwrap_or_else(PoisonError::into_inner));
        }
    }

    pub fn server(&self) -> Option<Server> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).server.take()
    }
}
