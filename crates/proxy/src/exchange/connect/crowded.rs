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

use rustix::time::{ClockId, clock_gettime};

/// Searches up to here are not worth a pause.
const LONG: Duration = Duration::from_millis(1);
/// Of the worker's time, at most one part in so many is spent on searches.
const PAUSE_TIMES: u32 = 20;

/// The last node with a long search, and when it may have a connection again.
#[derive(Default)]
pub struct Crowded(Cell<Option<(SocketAddr, Instant)>>);

/// A moment in the time that this thread has computed: others' time on the processor does not count.
pub struct Computed(Duration);

impl Computed {
    pub fn now() -> Computed {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        Computed(Duration::try_from(time).unwrap_or_default())
    }

    pub fn elapsed(&self) -> Duration {
        Computed::now().0.saturating_sub(self.0)
    }
}

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

    /// `connect` computed for so long.
    pub fn searched(&self, address: SocketAddr, took: Duration) {
        if took > LONG {
            self.0.set(Some((address, Instant::now() + took * PAUSE_TIMES)));
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
        crowded.searched(address(1), LONG);
        assert!(crowded.check(address(1)).is_ok(), "it was short");
        crowded.searched(address(1), Duration::from_secs(1));
        assert!(crowded.check(address(1)).is_err());
        assert!(crowded.check(address(2)).is_ok(), "another node");
    }
}
