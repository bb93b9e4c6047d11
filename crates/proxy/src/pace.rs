//! The least speed of a client: bytes a second over the time that the gateway waits for it.
//!
//! Time spent waiting for others does not count: a stream that is silent because its upstream is silent is not held
//! against its client. Off by default: an upload that trickles may be meant to.

use std::cell::Cell;

/// The configured rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeastRate {
    /// 0: none.
    pub bytes_per_second: u64,
    /// The rate is checked each time that this much waiting has added up.
    pub window_ms: u64,
}

/// Waiting and progress in one direction of a connection.
#[derive(Default)]
pub struct Pace {
    /// When the wait began; 0: not waiting. Times start at 1 here.
    since: Cell<u32>,
    waited_ms: Cell<u32>,
    moved: Cell<u32>,
}

impl Pace {
    /// For the next message.
    pub fn reset(&self) {
        self.since.set(0);
        self.waited_ms.set(0);
        self.moved.set(0);
    }

    /// The client is waited for from now on, if it was not already.
    pub fn waits(&self, now_ms: u64) {
        if self.since.get() == 0 {
            self.since.set(stamp(now_ms));
        }
    }

    /// Records that bytes moved; `false` when they are too few for the time that passed.
    #[must_use]
    pub fn moves(&self, bytes: usize, now_ms: u64, least: LeastRate) -> bool {
        if least.bytes_per_second == 0 {
            // A rate may be configured later: the wait until now is over.
            self.since.set(0);
            return true;
        }
        let since = self.since.replace(0);
        if since != 0 {
            self.waited_ms.set(self.waited_ms.get().saturating_add(stamp(now_ms).wrapping_sub(since)));
        }
        self.moved.set(self.moved.get().saturating_add(u32::try_from(bytes).unwrap_or(u32::MAX)));
        let waited = u64::from(self.waited_ms.get());
        if waited < least.window_ms.max(1) {
            return true;
        }
        let enough = u64::from(self.moved.get()) * 1000 >= least.bytes_per_second.saturating_mul(waited);
        self.waited_ms.set(0);
        self.moved.set(0);
        enough
    }
}

/// Wraps after 49 days; differences stay right.
fn stamp(now_ms: u64) -> u32 {
    (now_ms as u32).wrapping_add(1).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: LeastRate = LeastRate { bytes_per_second: 100, window_ms: 1000 };

    #[test]
    fn only_waiting_counts() {
        let pace = Pace::default();
        // Fast, with pauses that are not the client's.
        for second in 0..10 {
            assert!(pace.moves(10, second * 1000, LEAST));
        }
        // Waited for: 10 bytes in each half second.
        let pace = Pace::default();
        pace.waits(0);
        pace.waits(400);
        assert!(pace.moves(10, 500, LEAST), "no full window yet");
        pace.waits(500);
        assert!(!pace.moves(10, 1000, LEAST));
        // And as fast as asked.
        pace.waits(1000);
        assert!(pace.moves(100, 2000, LEAST));
        assert!(pace.moves(0, 90_000, LeastRate::default()));
    }
}
