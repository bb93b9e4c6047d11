//! Nodes to which hardly a local port is free.
//!
//! The kernel looks for a free local port within `connect`, on the thread that calls it, and walks through all ports that
//! are in use with the same node: tens of milliseconds once nearly all are. A client that keeps many requests open must not
//! make each worker spend its time so. A search that took long is paid for: until then the node gets no new connection.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::stall::Stalls;

/// Searches up to here are not worth a pause.
const LONG: Duration = Duration::from_millis(1);
/// Of the worker's time, at most one part in so many is spent on searches.
const PAUSE_TIMES: u32 = 20;

/// The last node with a long search, and when it may have a connection again.
#[derive(Default)]
pub struct Crowded(Cell<Option<(SocketAddr, Instant)>>);

impl Crowded {
    /// Refuses a connection to a node while the last search for it is being paid for.
    pub fn check(&self, address: SocketAddr) -> io::Result<()> {
        match self.0.get() {
            Some((crowded, until)) if crowded == address && Instant::now() < until => {
                Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "nearly all local ports are in use"))
            }
            _ => Ok(()),
        }
    }

    /// `connect` was called at `began`. Time in which the thread had no processor does not count.
    pub fn searched(&self, address: SocketAddr, began: Instant, stalls: &Stalls) {
        let now = Instant::now();
        let took = now.saturating_duration_since(began);
        if took > LONG {
            self.computed(address, now, stalls.computed(took));
        }
    }

    fn computed(&self, address: SocketAddr, now: Instant, computed: Duration) {
        if computed > LONG {
            self.0.set(Some((address, now + computed * PAUSE_TIMES)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_search_is_paid_for() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let crowded = Crowded::default();
        crowded.computed(address(1), Instant::now(), LONG);
        assert!(crowded.check(address(1)).is_ok(), "it was short");
        crowded.computed(address(1), Instant::now(), Duration::from_secs(1));
        assert!(crowded.check(address(1)).is_err());
        assert!(crowded.check(address(2)).is_ok(), "another node");
    }
}
