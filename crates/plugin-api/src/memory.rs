//! The memory that bodies hold, over all workers: gathered request bodies, values parsed from them, and answers that a
//! plugin holds until they are whole. Counted by the reserved bytes, per client, and refused beyond a
//! budget.
//!
//! A body that is sent on as it comes is not counted, nor are the first 16 KiB of any: these are bounded by the number of
//! connections. So most requests never come here.

mod copies;
mod growing;

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{
        LazyLock,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::Instant,
};

use bytes::Bytes;
use parking_lot::Mutex;
use tidegate_telemetry::error_log;

pub use copies::Copy;
pub use growing::{Full, Growing};

/// Bodies up to this size are not counted.
pub const UNCOUNTED: usize = 16 << 10;

/// One client holds at most this part of the budget.
const CLIENT_PART: usize = 8;

static BUDGET: LazyLock<Budget> = LazyLock::new(Budget::default);

struct Budget {
    limit: AtomicUsize,
    held: AtomicUsize,
    clients: Mutex<HashMap<IpAddr, usize>>,
    refused: [AtomicU64; 2],
    slow: AtomicU64,
    started: Instant,
    /// The second of the last line in the log, from 1, and refusals since.
    logged: AtomicU64,
    unlogged: AtomicU64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            limit: AtomicUsize::new(usize::MAX),
            held: AtomicUsize::new(0),
            clients: Mutex::default(),
            refused: Default::default(),
            slow: AtomicU64::new(0),
            started: Instant::now(),
            logged: AtomicU64::new(0),
            unlogged: AtomicU64::new(0),
        }
    }
}

/// The numbers for the metrics page.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// The budget in bytes.
    pub limit: usize,
    /// Bytes that bodies hold now.
    pub held: usize,
    /// Requests refused because the budget was spent.
    pub refused_total: u64,
    /// Requests refused because their client's part of it was spent.
    pub refused_client: u64,
    /// Bodies that came too slowly to be held.
    pub slow: u64,
}

/// The budget is spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spent;

/// `apisix.body_memory.total`. Before it is set, as in tests of parts, there is no limit.
pub fn set_limit(bytes: usize) {
    BUDGET.limit.store(bytes, Relaxed);
}

/// The budget in bytes; without limit before [`set_limit`].
pub fn limit() -> usize {
    BUDGET.limit.load(Relaxed)
}

/// As of now, over all workers.
pub fn usage() -> Usage {
    let [total, client] = &BUDGET.refused;
    Usage {
        limit: BUDGET.limit.load(Relaxed),
        held: BUDGET.held.load(Relaxed),
        refused_total: total.load(Relaxed),
        refused_client: client.load(Relaxed),
        slow: BUDGET.slow.load(Relaxed),
    }
}

/// Counts a held body that came too slowly.
pub fn count_slow() {
    BUDGET.slow.fetch_add(1, Relaxed);
}

/// A part of the budget. Dropping it gives it back.
#[derive(Debug)]
pub struct Lease {
    client: IpAddr,
    bytes: usize,
}

impl Lease {
    /// Holds nothing yet. The address is the key of the client's part of the budget.
    pub fn new(client: IpAddr) -> Lease {
        Lease { client: network(client), bytes: 0 }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it this large. It never shrinks.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Spent> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let limit = BUDGET.limit.load(Relaxed);
        let fits = |held: usize, limit: usize| held.checked_add(more).filter(|sum| *sum <= limit);
        let mut clients = BUDGET.clients.lock();
        // Changed under the lock only.
        let Some(held) = fits(BUDGET.held.load(Relaxed), limit) else {
            drop(clients);
            return Err(refuse(0, limit, self.client, more));
        };
        let of_client = clients.get(&self.client).copied().unwrap_or_default();
        let Some(of_client) = fits(of_client, limit / CLIENT_PART) else {
            drop(clients);
            return Err(refuse(1, limit, self.client, more));
        };
        clients.insert(self.client, of_client);
        BUDGET.held.store(held, Relaxed);
        self.bytes = bytes;
        Ok(())
    }
}

impl Lease {
    /// Takes over the memory of another lease of the same client.
    fn take_over(&mut self, mut other: Lease) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.bytes == 0 {
            return;
        }
        let mut clients = BUDGET.clients.lock();
        BUDGET.held.store(BUDGET.held.load(Relaxed).saturating_sub(self.bytes), Relaxed);
        let left = clients.get(&self.client).map_or(0, |held| held.saturating_sub(self.bytes));
        if left == 0 {
            clients.remove(&self.client);
        } else {
            clients.insert(self.client, left);
        }
    }
}

/// A network of IPv6 that one customer gets counts as one client.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
        address => address,
    }
}

/// One line a second.
fn refuse(reason: usize, limit: usize, client: IpAddr, more: usize) -> Spent {
    if let Some(count) = BUDGET.refused.get(reason) {
        count.fetch_add(1, Relaxed);
    }
    let second = BUDGET.started.elapsed().as_secs() + 1;
    if BUDGET.logged.swap(second, Relaxed) == second {
        BUDGET.unlogged.fetch_add(1, Relaxed);
        return Spent;
    }
    let others = match BUDGET.unlogged.swap(0, Relaxed) {
        0 => String::new(),
        count => format!("; {count} more since the previous line"),
    };
    let whose = if reason == 0 { String::new() } else { format!(" for client {client}") };
    error_log::log(
        error_log::Level::Error,
        format_args!(
            "request refused: the memory for bodies (apisix.body_memory.total, {limit} bytes) has no {more} bytes left{whose}{others}"
        ),
    );
    Spent
}

/// A body that is rebuilt, as one that was gathered.
pub fn hold(bytes: Vec<u8>, client: IpAddr) -> Result<Bytes, Spent> {
    if bytes.capacity() <= UNCOUNTED {
        return Ok(bytes.into());
    }
    let mut lease = Lease::new(client);
    lease.grow_to(bytes.capacity())?;
    Ok(Bytes::from_owner(Held { bytes, _lease: lease }))
}

/// Bytes of a body, with what they hold of the budget.
pub(crate) struct Held {
    pub bytes: Vec<u8>,
    pub(crate) _lease: Lease,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_held_is_counted_and_given_back() {
        set_limit(8_000);
        let address = |text: &str| text.parse::<IpAddr>().unwrap();
        let mut first = Lease::new(address("192.0.2.1"));
        assert_eq!(first.grow_to(600), Ok(()));
        assert_eq!(first.grow_to(1_000), Ok(()));
        assert_eq!(first.grow_to(500), Ok(()));
        assert_eq!(Lease::new(address("::ffff:192.0.2.1")).grow_to(1), Err(Spent));
        let mut network = Lease::new(address("2001:db8::1"));
        assert_eq!(network.grow_to(1_000), Ok(()));
        assert_eq!(Lease::new(address("2001:db8::2:3")).grow_to(1), Err(Spent));
        let others: Vec<Lease> = (0..6)
            .map(|last| {
                let mut lease = Lease::new(IpAddr::from([198, 51, 100, last]));
                assert_eq!(lease.grow_to(1_000), Ok(()));
                lease
            })
            .collect();
        assert_eq!(usage().held, 8_000);
        assert_eq!(Lease::new(address("203.0.113.1")).grow_to(1), Err(Spent));
        drop((first, network, others));
        assert_eq!((usage().held, BUDGET.clients.lock().len()), (0, 0));
        assert_eq!((usage().refused_total, usage().refused_client), (1, 2));
        assert_eq!(Lease::new(address("203.0.113.1")).grow_to(1_000), Ok(()));
    }
}
