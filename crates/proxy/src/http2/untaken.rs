//! HTTP/2 requests whose clients do not take the answers: what they hold is bounded, over all workers and for each address.
//!
//! A request under way holds its task, its head and the state of two streams, whatever else is held for it. One that has
//! waited for its client for [`COUNTED_AFTER_MS`] is counted until the client keeps up or the request ends. It is cut where
//! too many are counted already, and so is nobody who reads; an address that has all that it may gets no new streams.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{
        LazyLock,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// What a request holds, without its body and what is held of its answer.
pub const STREAM_BYTES: usize = 16 * 1024;
/// A client that takes nothing of an answer for so long does not take it.
pub const COUNTED_AFTER_MS: u64 = 1_000;
/// Unless all streams of its connection took this much meanwhile: then it takes others first.
pub const KEEPS_UP_BYTES: u64 = 64 * 1024;
/// All of them together: one part in so many of `apisix.body_memory.total`.
const PART: usize = 4;
/// Those of one address: one part in so many of that.
const ADDRESS_PART: usize = 2;

static HELD: AtomicUsize = AtomicUsize::new(0);
static ADDRESSES: LazyLock<Mutex<HashMap<IpAddr, usize>>> = LazyLock::new(Mutex::default);

fn limit() -> usize {
    plugin::memory::limit() / PART
}

/// A request that is counted.
pub struct Untaken(IpAddr);

impl Untaken {
    /// `None`: there are too many.
    pub fn count(address: IpAddr) -> Option<Untaken> {
        Untaken::count_within(limit(), address)
    }

    fn count_within(limit: usize, address: IpAddr) -> Option<Untaken> {
        let address = crate::admission::network(address);
        let mut addresses = ADDRESSES.lock();
        // Changed under the lock only.
        let all = HELD.load(Relaxed) + STREAM_BYTES;
        let of_address = addresses.get(&address).copied().unwrap_or_default() + STREAM_BYTES;
        if all > limit || of_address > limit / ADDRESS_PART {
            drop(addresses);
            tell(address);
            return None;
        }
        addresses.insert(address, of_address);
        HELD.store(all, Relaxed);
        Some(Untaken(address))
    }
}

impl Drop for Untaken {
    fn drop(&mut self) {
        let mut addresses = ADDRESSES.lock();
        HELD.store(HELD.load(Relaxed).saturating_sub(STREAM_BYTES), Relaxed);
        let left = addresses.get(&self.0).map_or(0, |held| held.saturating_sub(STREAM_BYTES));
        if left == 0 {
            addresses.remove(&self.0);
        } else {
            addresses.insert(self.0, left);
        }
    }
}

/// Whether an address may begin another request.
pub fn has_room(address: IpAddr) -> bool {
    has_room_within(limit(), address)
}

fn has_room_within(limit: usize, address: IpAddr) -> bool {
    let all = HELD.load(Relaxed) + STREAM_BYTES;
    // Nobody can have more than all have.
    if all <= limit / ADDRESS_PART {
        return true;
    }
    let of_address = ADDRESSES.lock().get(&crate::admission::network(address)).copied().unwrap_or_default();
    // Whoever leaves nothing is served, whatever others leave.
    of_address == 0 || (all <= limit && of_address + STREAM_BYTES <= limit / ADDRESS_PART)
}

#[cold]
fn tell(address: IpAddr) {
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Warn,
            format_args!(
                "HTTP/2 answers that their clients do not take hold their part of apisix.body_memory.total: those that \
                 take nothing for a second are cut, client: {address}; {others} more since the line before"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_address_has_its_part_and_gives_it_back() {
        let limit = 8 * STREAM_BYTES;
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        let count = |last| Untaken::count_within(limit, address(last));
        let has_room = |last| has_room_within(limit, address(last));
        let first: Vec<_> = (0..4).map(|_| count(1).expect("room")).collect();
        assert!(count(1).is_none() && !has_room(1));
        assert!(has_room(2));
        let others: Vec<_> = (2..6).map(|last| count(last).expect("room")).collect();
        assert!(count(9).is_none() && !has_room(2));
        assert!(has_room(9), "it leaves nothing");
        drop((first, others));
        assert_eq!((HELD.load(Relaxed), ADDRESSES.lock().len()), (0, 0));
        assert!(has_room(1));
    }
}
