//! The memory that answers of services take: authorisation services, identity providers, registries, secret managers. Each answer
//! has a limit, and all of them share another (`apisix.plugin_answer_memory`), of which one service gets half: a
//! service that never ends its answers leaves room for the others.
//!
//! The first 16 KiB of an answer are not counted: these are bounded by the number of requests.

use std::{
    collections::HashMap,
    fmt,
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

const UNCOUNTED: usize = 16 << 10;

/// One service gets this part of the whole.
const PART: usize = 2;

static LIMIT: AtomicUsize = AtomicUsize::new(usize::MAX);
static REFUSED: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];

#[derive(Default)]
struct Held {
    all: usize,
    services: HashMap<Arc<str>, usize>,
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
    /// The budget for answers, or the service's part of it, is spent.
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
    bytes: usize,
}

impl Lease {
    /// Holds nothing yet. The service's name is the key of its part of the budget.
    pub fn new(service: &str) -> Lease {
        Lease { service: service.into(), bytes: 0 }
    }

    /// Makes it this large. It never shrinks.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Refused> {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return Ok(()) };
        let limit = LIMIT.load(Relaxed);
        let mut held = HELD.lock();
        let held = held.get_or_insert_default();
        let of_service = held.services.get(&self.service).copied().unwrap_or_default();
        let fits = |sum: usize, limit: usize| sum.checked_add(more).filter(|sum| *sum <= limit);
        match (fits(held.all, limit), fits(of_service, limit / PART)) {
            (Some(all), Some(of_service)) => {
                held.all = all;
                held.services.insert(self.service.clone(), of_service);
                self.bytes = bytes;
                Ok(())
            }
            _ => Err(self.refuse(Refused::NoMemory)),
        }
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
        if self.bytes == 0 {
            return;
        }
        let mut held = HELD.lock();
        let Some(held) = held.as_mut() else { return };
        held.all = held.all.saturating_sub(self.bytes);
        let left = held.services.get(&self.service).map_or(0, |held| held.saturating_sub(self.bytes));
        if left == 0 {
            held.services.remove(&self.service);
        } else {
            held.services.insert(self.service.clone(), left);
        }
    }
}

/// The body of an answer as it comes.
#[derive(Debug)]
pub struct BoundedBody {
    bytes: Vec<u8>,
    limit: usize,
    lease: Lease,
}

impl BoundedBody {
    /// An answer of at most `limit` bytes.
    pub fn new(service: &str, limit: usize) -> BoundedBody {
        BoundedBody { bytes: Vec::new(), limit, lease: Lease::new(service) }
    }

    /// Appends, or refuses without having changed anything.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), Refused> {
        let length = self.bytes.len().saturating_add(piece.len());
        if length > self.limit {
            return Err(self.lease.refuse(Refused::TooLong { limit: self.limit }));
        }
        if length > self.bytes.capacity() {
            let capacity = length.max(self.bytes.capacity().saturating_mul(2)).min(self.limit);
            if capacity > UNCOUNTED {
                // While it grows, the old and the new memory exist at the same time.
                self.lease.grow_to(capacity.saturating_add(self.bytes.capacity()))?;
            }
            self.bytes.reserve_exact(capacity - self.bytes.len());
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
        set_limit(400_000);
        let piece = [0; 10_000];
        let mut answer = BoundedBody::new("a:1", 95_000);
        for _ in 0..9 {
            assert_eq!(answer.push(&piece), Ok(()));
        }
        assert_eq!(answer.push(&piece), Err(Refused::TooLong { limit: 95_000 }));
        answer.push_start(&piece);
        assert_eq!(answer.as_ref().len(), 95_000);
        let mut other = Lease::new("a:1");
        assert_eq!(other.grow_to(100_000), Err(Refused::NoMemory), "a half for each service");
        assert_eq!(Lease::new("b:1").grow_to(100_000), Ok(()));
        let kept = answer.into_bytes();
        assert!(usage().held >= 95_000);
        drop(kept.clone());
        drop((kept, other));
        assert_eq!((usage().held, usage().too_long, usage().no_memory), (0, 1, 1));
        assert!(HELD.lock().as_ref().unwrap().services.is_empty());
    }
}
