//! Which idle connection to a node has been idle for longest, where every connection belongs to one client.

use std::collections::BTreeSet;

use rustc_hash::FxHashMap;

/// By pool number: idle connections in the order they became idle, with their clients.
#[derive(Default)]
pub(crate) struct Ages {
    pools: FxHashMap<u32, BTreeSet<(u64, u64)>>,
    next: u64,
}

impl Ages {
    /// The number of a connection that becomes idle.
    pub(crate) fn enter(&mut self, pool: u32, client: u64) -> u64 {
        let number = self.next;
        self.next += 1;
        self.pools.entry(pool).or_default().insert((number, client));
        number
    }

    pub(crate) fn leave(&mut self, pool: u32, number: u64, client: u64) {
        if let Some(idle) = self.pools.get_mut(&pool) {
            idle.remove(&(number, client));
            if idle.is_empty() {
                self.pools.remove(&pool);
            }
        }
    }

    /// Number and client of the one to close, if more than `most` are idle. It is forgotten here.
    pub(crate) fn surplus(&mut self, pool: u32, most: usize) -> Option<(u64, u64)> {
        let idle = self.pools.get_mut(&pool).filter(|idle| idle.len() > most)?;
        idle.pop_first()
    }

    #[cfg(test)]
    pub(crate) fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }
}
