//! Limits unfinished TLS handshakes: of all clients together, and of one address, over all workers. Each holds what was received
//! of it, up to 64 KB, and its peer has proved nothing yet.
//!
//! Beyond that the oldest one is closed to make room, so that idle peers do not keep others out. If even the oldest began within the
//! last second, it may be waiting for us (all clients reconnect after an outage): then the new one is refused.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};
use tokio::sync::Notify;

use crate::admission::network;

/// A handshake takes a few round trips.
const PATIENCE: Duration = Duration::from_secs(1);

static UNFINISHED: AtomicUsize = AtomicUsize::new(0);
static ENDED: AtomicU64 = AtomicU64::new(0);
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// The numbers for the metrics page.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// TLS handshakes under way.
    pub unfinished: usize,
    /// To make room for others.
    pub ended: u64,
    /// Handshakes that were not let in, since the start.
    pub refused: u64,
}

/// Of all workers.
pub fn usage() -> Usage {
    Usage { unfinished: UNFINISHED.load(Relaxed), ended: ENDED.load(Relaxed), refused: REFUSED.load(Relaxed) }
}

/// Bounds the unfinished TLS handshakes of all workers.
pub struct Room {
    total_limit: usize,
    address_limit: usize,
    waiting: Mutex<Waiting>,
}

impl fmt::Debug for Room {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        out.debug_struct("Room").field("total_limit", &self.total_limit).finish_non_exhaustive()
    }
}

#[derive(Default)]
struct Waiting {
    next: u64,
    /// By their number: the oldest first.
    all: BTreeMap<u64, Handshake>,
    addresses: HashMap<IpAddr, BTreeSet<u64>>,
}

struct Handshake {
    address: IpAddr,
    began: Instant,
    ended: Arc<Notify>,
}

/// The place of one handshake.
pub struct HandshakePermit {
    room: Arc<Room>,
    number: u64,
    ended: Arc<Notify>,
}

impl Room {
    /// The most in all, and of one address or IPv6 /64 network.
    pub fn new(total_limit: usize, address_limit: usize) -> Arc<Room> {
        Arc::new(Room { total_limit, address_limit, waiting: Mutex::default() })
    }

    /// `None`: there is no room, and none can be made.
    pub fn enter(self: &Arc<Room>, address: IpAddr) -> Option<HandshakePermit> {
        let address = network(address);
        let now = Instant::now();
        let mut waiting = self.waiting.lock();
        let of_address = waiting.addresses.get(&address);
        let oldest = match of_address.filter(|numbers| numbers.len() >= self.address_limit) {
            Some(numbers) => numbers.first().copied(),
            None if waiting.all.len() >= self.total_limit => waiting.all.keys().next().copied(),
            None => None,
        };
        if let Some(oldest) = oldest {
            let is_old = |one: &Handshake| now.duration_since(one.began) >= PATIENCE;
            if !waiting.all.get(&oldest).is_some_and(is_old) {
                drop(waiting);
                return refuse(address);
            }
            if let Some(one) = waiting.remove(oldest) {
                ENDED.fetch_add(1, Relaxed);
                one.ended.notify_one();
            }
        }
        let number = waiting.next;
        waiting.next += 1;
        let ended = Arc::new(Notify::new());
        waiting.all.insert(number, Handshake { address, began: now, ended: ended.clone() });
        waiting.addresses.entry(address).or_default().insert(number);
        UNFINISHED.store(waiting.all.len(), Relaxed);
        drop(waiting);
        if oldest.is_some() {
            warn_refused(address);
        }
        Some(HandshakePermit { room: self.clone(), number, ended })
    }
}

impl Waiting {
    fn remove(&mut self, number: u64) -> Option<Handshake> {
        let one = self.all.remove(&number)?;
        if let Some(numbers) = self.addresses.get_mut(&one.address) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.addresses.remove(&one.address);
            }
        }
        UNFINISHED.store(self.all.len(), Relaxed);
        Some(one)
    }
}

impl HandshakePermit {
    /// Ready when others need the place.
    pub async fn ended(&self) {
        self.ended.notified().await;
    }
}

impl Drop for HandshakePermit {
    fn drop(&mut self) {
        self.room.waiting.lock().remove(self.number);
    }
}

#[cold]
fn refuse(address: IpAddr) -> Option<HandshakePermit> {
    REFUSED.fetch_add(1, Relaxed);
    warn_refused(address);
    None
}

/// One line in ten seconds.
#[cold]
fn warn_refused(address: IpAddr) {
    static LINES: Limiter = Limiter::new(1, 10_000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Error,
            format_args!(
                "too many unfinished TLS handshakes (apisix.client_limits.handshakes, \
                 handshakes_per_address): the oldest are closed, most recently one from {address}; {others} \
                 more since the previous line"
            ),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[tokio::test]
    async fn the_oldest_makes_room() {
        let room = Room::new(3, 2);
        let enter = |text: &str| room.enter(address(text));
        let age = |place: &HandshakePermit| {
            let mut waiting = room.waiting.lock();
            waiting.all.get_mut(&place.number).expect("it waits").began -= PATIENCE;
        };
        let first = enter("192.0.2.1").expect("room");
        let second = enter("192.0.2.1").expect("room");
        assert!(enter("192.0.2.1").is_none(), "both have just begun");
        age(&first);
        let third = enter("192.0.2.1").expect("the first one's place");
        first.ended().await;
        let other = enter("2001:db8::1").expect("room");
        assert!(enter("2001:db8::2").is_none(), "three together");
        drop(first);
        assert_eq!(room.waiting.lock().all.len(), 3, "its place was gone already");
        age(&second);
        let last = enter("198.51.100.1").expect("the oldest one's place");
        second.ended().await;
        drop((second, third, other, last));
        let waiting = room.waiting.lock();
        assert!(waiting.all.is_empty() && waiting.addresses.is_empty());
    }
}
