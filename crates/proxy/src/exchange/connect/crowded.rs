//! Nodes for which local ports run out.
//!
//! The kernel looks for a free local port within `connect`, on the thread that calls it, and walks through all ports that
//! are in use with the same node: tens of milliseconds once nearly all are. A client that keeps many requests open must not
//! make each worker spend its time on that. Once several searches in a row took long, each is followed by a pause in which the
//! node gets no new connection.

use std::{
    cell::Cell,
    io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::stall::record::Stalls;

/// Searches up to here are not worth a pause: the kernel may deliver other connections' packets within the call.
const LONG: Duration = Duration::from_millis(3);
/// No walk through all ports takes longer: the machine itself stood still, which says nothing of ports.
const LONGEST: Duration = Duration::from_millis(250);
/// This many in a row do not happen by chance.
const IN_A_ROW: u32 = 3;
/// At most one part in so many of the worker's time is spent on searches.
const PAUSE_TIMES: u32 = 20;

/// The last node with a long search.
#[derive(Default)]
pub(crate) struct Crowded(Cell<Option<Last>>);

#[derive(Clone, Copy)]
struct Last {
    node: SocketAddr,
    /// Long searches in a row.
    long: u32,
    /// When it may have a connection again.
    until: Instant,
}

impl Crowded {
    /// Refuses a connection to a node during the pause after the last search for it.
    pub(crate) fn check(&self, address: SocketAddr) -> io::Result<()> {
        match self.0.get() {
            Some(last) if last.node == address && Instant::now() < last.until => {
                Err(io::Error::new(io::ErrorKind::AddrNotAvailable, "nearly all local ports are in use"))
            }
            _ => Ok(()),
        }
    }

    /// `connect` was called at `began`. Time in which the thread had no processor does not count.
    pub(crate) fn searched(&self, address: SocketAddr, began: Instant, stalls: &Stalls) {
        let now = Instant::now();
        let took = now.saturating_duration_since(began);
        let computed = if took > LONG { stalls.computed(took) } else { took };
        self.computed(address, now, computed);
    }

    fn computed(&self, address: SocketAddr, now: Instant, computed: Duration) {
        let before = self.0.get().filter(|last| last.node == address);
        if computed <= LONG || computed > LONGEST {
            if before.is_some() {
                self.0.set(None);
            }
            return;
        }
        let long = before.map_or(1, |last| last.long.saturating_add(1));
        let pause = if long < IN_A_ROW { Duration::ZERO } else { computed * PAUSE_TIMES };
        self.0.set(Some(Last { node: address, long, until: now + pause }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_search_is_paid_for() {
        let address = |port: u16| SocketAddr::from(([127, 0, 0, 1], port));
        let crowded = Crowded::default();
        let searched = |took: Duration| crowded.computed(address(1), Instant::now(), took);
        let is_refused = || crowded.check(address(1)).is_err();
        let long = LONGEST;
        searched(LONG);
        assert!(!is_refused(), "it was short");
        searched(long);
        searched(long);
        assert!(!is_refused(), "twice may be chance");
        searched(LONG);
        searched(long);
        searched(long);
        assert!(!is_refused(), "not in a row");
        searched(long);
        assert!(is_refused());
        assert!(crowded.check(address(2)).is_ok(), "another node");
        let crowded = Crowded::default();
        (0..IN_A_ROW).for_each(|_| crowded.computed(address(1), Instant::now(), Duration::from_secs(12)));
        assert!(crowded.check(address(1)).is_ok(), "the machine stood still");
    }
}
