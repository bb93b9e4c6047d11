//! The memory that answers of services take: authorisation services, identity providers, registries, secret managers. Each answer
//! has a limit, and all of them share another (`apisix.plugin_answer_memory`), of which one service gets half: a
//! service that never ends its answers leaves room for the others. An answer that is handed to a client counts for that one,
//! too, which gets an eighth: a client that takes answers slowly leaves room for the others. It may always have one.
//!
//! The first 16 KiB of an answer are not counted: these are bounded by the number of requests.

use std::{
    collections::HashMap,
    fmt,
    hash::Hash,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use parking_lot::Mutex;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use crate::memory::network;

const UNCOUNTED: usize = 16 << 10;

/// One service gets this part of the whole.
const PART: usize = 2;

/// One client's answers get this part.
const CLIENT_PART: usize = 8;

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

#[derive(Default)]
struct Held {
    all: usize,
    services: HashMap<Arc<str>, usize>,
    /// Hashed with a random seed: clients choose addresses.
    clients: HashMap<IpAddr, usize>,
}

static HELD: Mutex<Option<Held>> = Mutex::new(None);

/// Before it is set, as in tests of parts, there is no limit.
pub fn set_limit(bytes: usize) {
    LIMIT.store(bytes, Relaxed);
}

/// The numbers for the metrics page.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Bytes that answers hold now.
    pub held: usize,
    /// Answers that exceeded their limit.
    pub too_long: u64,
    /// Answers for which there was no memory left.
    pub no_memory: u64,
}

/// As of now, over all workers.
pub fn usage() -> Usage {
    let held = HELD.lock().as_ref().map_or(0, |held| held.all);
    let [too_long, no_memory] = &REFUSED;
    Usage { held, too_long: too_long.load(Relaxed), no_memory: no_memory.load(Relaxed) }
}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// The service sent more than the caller allows.
    TooLong {
        /// The most bytes allowed.
        limit: usize,
    },
    /// The budget for answers, or the part of the service or of the client, is spent.
    NoMemory,
}

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Refused::TooLong { limit } => write!(out, "it exceeds {limit} bytes"),
            Refused::NoMemory => {
                out.write_str("there is no memory left for it (apisix.plugin_answer_memory)")
            }
        }
    }
}

/// A part of the memory for answers. Dropping it gives it back.
#[derive(Debug)]
pub struct Lease {
    service: Arc<str>,
    /// Who gets the answer.
    client: Option<IpAddr>,
    bytes: usize,
}

impl Lease {
    /// Holds nothing yet. The service's name is the key of its part of the budget.
    pub fn new(service: &str) -> Lease {
        Lease { service: service.into(), client: None, bytes: 0 }
    }

    /// Makes it this large.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Refused> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let limit = LIMIT.load(Relaxed);
        let mut held = HELD.lock();
        let held = held.get_or_insert_default();
        let of_service = held.services.get(&self.service).copied().unwrap_or_default();
        let fits = |sum: usize, limit: usize| sum.checked_add(more).filter(|sum| *sum <= limit);
        let of_client = self.client.and_then(|client| held.clients.get(&client)).copied().unwrap_or_default();
        let client_limit = if of_client == self.bytes { limit } else { limit / CLIENT_PART };
        let fitting = (fits(held.all, limit), fits(of_service, limit / PART), fits(of_client, client_limit));
        let (Some(all), Some(of_service), Some(of_client)) = fitting else {
            return Err(self.refuse(Refused::NoMemory));
        };
        held.all = all;
        held.services.insert(self.service.clone(), of_service);
        if let Some(client) = self.client {
            held.clients.insert(client, of_client);
        }
        self.bytes = bytes;
        Ok(())
    }

    /// Gives back what is beyond this.
    fn shrink_to(&mut self, bytes: usize) {
        let Some(less) = self.bytes.checked_sub(bytes).filter(|less| *less > 0) else { return };
        let mut held = HELD.lock();
        let Some(held) = held.as_mut() else { return };
        held.all = held.all.saturating_sub(less);
        take(&mut held.services, &self.service, less);
        if let Some(client) = &self.client {
            take(&mut held.clients, client, less);
        }
        self.bytes = bytes;
    }

    #[cold]
    fn refuse(&self, why: Refused) -> Refused {
        let reason = usize::from(why == Refused::NoMemory);
        if let Some(count) = REFUSED.get(reason) {
            count.fetch_add(1, Relaxed);
        }
        static LINES: Limiter = Limiter::new(1, 1000);
        if let Some(others) = LINES.pass() {
            error_log::log(
                Level::Error,
                format_args!(
                    "dropped a response of {}: {why}; {others} more since the previous line",
                    self.service
                ),
            );
        }
        why
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

fn take<K: Hash + Eq>(shares: &mut HashMap<K, usize>, of: &K, bytes: usize) {
    if let Some(held) = shares.get_mut(of) {
        *held = held.saturating_sub(bytes);
        if *held == 0 {
            shares.remove(of);
        }
    }
}

/// The body of an answer as it comes.
#[derive(Debug)]
pub struct BoundedBody {
    bytes: Vec<u8>,
    limit: usize,
    /// As long as it says that it gets.
    expected: usize,
    lease: Lease,
}

impl BoundedBody {
    /// A response of at most `limit` bytes. `client`: who gets it, in the end.
    pub fn new(service: &str, client: Option<IpAddr>, limit: usize) -> BoundedBody {
        let mut lease = Lease::new(service);
        lease.client = client.map(network);
        BoundedBody { bytes: Vec::new(), limit, expected: limit, lease }
    }

    /// The response announces its length: no more than that is taken, unless it is longer.
    pub fn expect(&mut self, length: u64) {
        self.expected = usize::try_from(length).unwrap_or(usize::MAX);
    }

    /// Appends, or refuses without having changed anything.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), Refused> {
        let length = self.bytes.len().saturating_add(piece.len());
        if length > self.limit {
            return Err(self.lease.refuse(Refused::TooLong { limit: self.limit }));
        }
        if length > self.bytes.capacity() {
            let doubled = self.bytes.capacity().saturating_mul(2).min(self.expected);
            let capacity = length.max(doubled).min(self.limit);
            if capacity > UNCOUNTED {
                // While it grows, the old and the new memory exist at the same time.
                self.lease.grow_to(capacity.saturating_add(self.bytes.capacity()))?;
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
            self.lease.shrink_to(if capacity > UNCOUNTED { capacity } else { 0 });
        }
        self.bytes.extend_from_slice(piece);
        Ok(())
    }

    /// Appends as much as there is room for; the rest is dropped.
    pub fn push_start(&mut self, piece: &[u8]) {
        let room = self.limit.saturating_sub(self.bytes.len());
        let _ = self.push(piece.get(..room).unwrap_or(piece));
    }

    /// The memory stays counted until the last copy is dropped.
    pub fn into_bytes(self) -> Bytes {
        if self.lease.bytes == 0 {
            return self.bytes.into();
        }
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for BoundedBody {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_have_a_limit_each_and_together() {
        set_limit(800_000);
        let piece = [0; 10_000];
        let mut announced = BoundedBody::new("announced:1", None, 1 << 20);
        announced.expect(50_000);
        assert!((0..5).all(|_| announced.push(&piece).is_ok()));
        assert_eq!((announced.bytes.capacity(), announced.lease.bytes), (50_000, 50_000));
        assert_eq!(announced.push(&piece), Ok(()), "it is longer than it said");
        drop(announced);
        let mut answer = BoundedBody::new("a:1", None, 95_000);
        for _ in 0..9 {
            assert_eq!(answer.push(&piece), Ok(()));
        }
        assert_eq!(answer.push(&piece), Err(Refused::TooLong { limit: 95_000 }));
        answer.push_start(&piece);
        assert_eq!(answer.as_ref().len(), 95_000);
        let mut other = Lease::new("a:1");
        assert_eq!(other.grow_to(310_000), Err(Refused::NoMemory), "a half for each service");
        assert_eq!(Lease::new("b:1").grow_to(100_000), Ok(()));
        drop(other);
        let client = Some(IpAddr::from([192, 0, 2, 1]));
        let mut large = BoundedBody::new("b:1", client, 190_000);
        assert_eq!(large.push(&[0; 100_000]), Ok(()), "one is always allowed");
        let mut second = BoundedBody::new("b:1", client, 190_000);
        assert_eq!(second.push(&[0; 30_000]), Err(Refused::NoMemory), "an eighth for each client");
        let mut other = BoundedBody::new("b:1", Some(IpAddr::from([192, 0, 2, 2])), 190_000);
        assert_eq!(other.push(&[0; 30_000]), Ok(()));
        drop((large, second));
        let kept = answer.into_bytes();
        assert!(usage().held >= 95_000);
        drop(kept.clone());
        drop((kept, other));
        assert_eq!((usage().held, usage().too_long, usage().no_memory), (0, 1, 2));
        let held = HELD.lock();
        assert!(held.as_ref().is_some_and(|held| held.services.is_empty() && held.clients.is_empty()));
    }
}
