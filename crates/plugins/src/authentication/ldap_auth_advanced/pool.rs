//! Connections to directories that are kept, per worker.

use std::{
    cell::RefCell,
    collections::HashMap,
    time::{Duration, Instant},
};

use super::client::Connection;

pub(super) struct Pool {
    pub(super) name: String,
    /// Idle connections older than this are not used again.
    pub(super) lifetime: Duration,
    pub(super) size: usize,
}

struct Idle {
    connection: Connection,
    until: Instant,
}

thread_local! {
    static POOLS: RefCell<HashMap<String, Vec<Idle>>> = RefCell::default();
}

impl Pool {
    /// The one that was used last.
    pub(super) fn take(&self) -> Option<Connection> {
        POOLS.with_borrow_mut(|pools| {
            let idle = pools.get_mut(&self.name)?;
            let now = Instant::now();
            std::iter::from_fn(|| idle.pop()).find(|idle| now < idle.until).map(|idle| idle.connection)
        })
    }

    /// Also lets those go that are too old, of other configurations as well.
    pub(super) fn keep(&self, connection: Connection) {
        POOLS.with_borrow_mut(|pools| {
            let now = Instant::now();
            pools.retain(|_, idle| {
                idle.retain(|idle| now < idle.until);
                !idle.is_empty()
            });
            let idle = pools.entry(self.name.clone()).or_default();
            if idle.len() < self.size {
                idle.push(Idle { connection, until: now + self.lifetime });
            }
        });
    }
}
