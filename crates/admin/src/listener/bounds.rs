//! What connections to a listener may take up before a client has shown a key, and in total.
//!
//! A connection is a stranger's until it shows a key, unless its address is on the list, has shown a key within the last
//! minutes, or is the machine's own. Strangers together leave a quarter of the connections to the others, and an address that is
//! not on the list has few without a key: a client cannot lock the operator out. Where there is no room, the connection that has
//! waited longest for a request gives its place up: programs without a key on the machine itself cannot either.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use ipnet::IpNet;
use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};
use tokio::sync::Semaphore;

use super::clock::Clock;

/// An address that has shown a key may come back for so long in place of strangers.
const KNOWN_FOR: Duration = Duration::from_secs(10 * 60);

/// So many are remembered. Only keys that are right add one.
const MOST_KNOWN: usize = 1024;

/// Of more, not all are looked at for one that gives its place up.
const MOST_LOOKED_AT: usize = 1024;

/// Ten lines in ten seconds.
static REFUSED: Limiter = Limiter::new(10, 10_000);
static CLOSED: Limiter = Limiter::new(10, 10_000);

/// The settings: `deployment.admin.limits`.
#[derive(Clone, Debug)]
pub struct Bounds {
    /// Open at a time.
    pub connections: usize,
    /// Of a stranger's address; 0: no limit.
    pub connections_per_address: u32,
    /// Addresses that are trusted without a key: `deployment.admin.allow_admin`.
    pub listed: Vec<IpNet>,
    /// For a head, with the TLS handshake before the first.
    pub head: Duration,
    /// For a body; it starts over with every 64 KiB.
    pub body: Duration,
    /// Between two requests.
    pub idle: Duration,
    /// How long a client may pause taking an answer.
    pub send: Duration,
    /// Bodies above [`crate::api::body::BODY_LIMIT`] at a time.
    pub large_bodies: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            connections: 256,
            connections_per_address: 8,
            listed: vec![IpNet::from(IpAddr::from([127, 0, 0, 1]))],
            head: Duration::from_secs(5),
            body: Duration::from_secs(30),
            idle: Duration::from_secs(75),
            send: Duration::from_secs(10),
            large_bodies: 8,
        }
    }
}

/// The bounds of one listener, and what of them is taken.
pub(super) struct Doors {
    pub bounds: Bounds,
    pub large_bodies: Arc<Semaphore>,
    counts: Mutex<Counts>,
}

#[derive(Default)]
struct Counts {
    open: HashMap<u64, Open>,
    /// The number of the newest.
    newest: u64,
    strangers: usize,
    /// Connections without a key, of addresses that are not on the list. Hashed with a random seed: clients choose addresses.
    addresses: HashMap<IpAddr, u32>,
    /// When an address has shown a key last.
    known: HashMap<IpAddr, Instant>,
}

struct Open {
    /// To be remembered once it shows a key; that of a listed address is not counted.
    address: IpAddr,
    is_counted: bool,
    is_stranger: bool,
    has_key: bool,
    clock: Arc<Clock>,
}

/// An open connection; dropping it makes room.
pub(super) struct ConnectionPermit {
    doors: Arc<Doors>,
    number: u64,
    pub(super) clock: Arc<Clock>,
}

impl Counts {
    fn is_known(&self, address: IpAddr) -> bool {
        self.known.get(&address).is_some_and(|shown| shown.elapsed() < KNOWN_FOR)
    }

    fn remember(&mut self, address: IpAddr) {
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&address) {
            let oldest = self.known.iter().min_by_key(|(_, shown)| **shown).map(|(address, _)| *address);
            oldest.map(|oldest| self.known.remove(&oldest));
        }
        self.known.insert(address, Instant::now());
    }

    /// Ends the connection that has waited longest for a request, first of those that have shown no key. A stranger takes the place
    /// of strangers only. The error: none waits.
    fn make_room(&mut self, for_stranger: bool) -> Result<(), &'static str> {
        let fitting = self.open.iter().filter(|(_, open)| open.is_stranger || !for_stranger);
        let waiting = fitting.take(MOST_LOOKED_AT).filter_map(|(number, open)| {
            open.clock.waiting_since().map(|since| (open.has_key, since, *number))
        });
        let longest = waiting.min().map(|(_, _, number)| number);
        let Some(number) =
            longest.filter(|number| self.open.get(number).is_some_and(|open| open.clock.close()))
        else {
            return Err("connections");
        };
        let address = self.open.get(&number).map(|open| open.address);
        self.leave(number);
        address.into_iter().for_each(closed);
        Ok(())
    }

    /// It no longer counts as one without a key.
    fn release(&mut self, number: u64) {
        let Some(open) = self.open.get_mut(&number) else { return };
        self.strangers -= usize::from(std::mem::take(&mut open.is_stranger));
        if !std::mem::take(&mut open.is_counted) {
            return;
        }
        if let Some(count) = self.addresses.get_mut(&open.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&open.address);
            }
        }
    }

    fn leave(&mut self, number: u64) {
        self.release(number);
        self.open.remove(&number);
    }
}

impl Doors {
    pub(super) fn new(bounds: Bounds) -> Arc<Doors> {
        let large_bodies = Arc::new(Semaphore::new(bounds.large_bodies));
        Arc::new(Doors { bounds, large_bodies, counts: Mutex::default() })
    }

    /// `None`: too many are open.
    pub(super) fn admit(self: &Arc<Self>, peer: IpAddr) -> Option<ConnectionPermit> {
        let place = self.place(peer);
        if let Err(key) = place {
            refused(peer, key);
        }
        place.ok()
    }

    /// The error is the key that says no.
    fn place(self: &Arc<Self>, peer: IpAddr) -> Result<ConnectionPermit, &'static str> {
        let peer = peer.to_canonical();
        let is_listed =
            OWN.contains(&peer) || self.bounds.listed.iter().any(|network| network.contains(&peer));
        let address = network(peer);
        let mut counts = self.counts();
        let is_stranger = !is_listed && !counts.is_known(address);
        if !is_listed {
            let limit = self.bounds.connections_per_address;
            if limit > 0 && counts.addresses.get(&address).is_some_and(|of_address| *of_address >= limit) {
                return Err("connections_per_address");
            }
        }
        let most_strangers = self.bounds.connections - self.bounds.connections / 4;
        if (is_stranger && counts.strangers >= most_strangers) || counts.open.len() >= self.bounds.connections
        {
            counts.make_room(is_stranger)?;
        }
        if !is_listed {
            *counts.addresses.entry(address).or_default() += 1;
        }
        counts.newest += 1;
        let number = counts.newest;
        counts.strangers += usize::from(is_stranger);
        let Bounds { head, send, idle, .. } = self.bounds;
        let clock = Clock::new(head, send, idle);
        let of_it = clock.clone();
        counts
            .open
            .insert(number, Open { address, is_counted: !is_listed, is_stranger, has_key: false, clock });
        Ok(ConnectionPermit { doors: self.clone(), number, clock: of_it })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Its client has shown its key.
    pub(crate) fn showed_key(&self) {
        let mut counts = self.doors.counts();
        let Some(open) = counts.open.get_mut(&self.number) else { return };
        open.has_key = true;
        let address = open.address;
        counts.remember(address);
        counts.release(self.number);
    }
}

impl Drop for ConnectionPermit {
    /// One that gave its place up is gone already.
    fn drop(&mut self) {
        self.doors.counts().leave(self.number);
    }
}

/// Where an operator comes from who is on the machine, `ssh -L` included. Further addresses of its network may be given to others.
const OWN: [IpAddr; 2] = [IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)];

/// A client has all of an IPv6 network of 64 bits to itself.
fn network(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

fn refused(peer: IpAddr, key: &str) {
    let Some(more) = REFUSED.pass() else { return };
    log(
        Level::Warn,
        format_args!(
            "connection from {peer} refused: deployment.admin.limits.{key} is reached ({more} more were not \
             logged)"
        ),
    );
}

fn closed(peer: IpAddr) {
    let Some(more) = CLOSED.pass() else { return };
    log(
        Level::Warn,
        format_args!(
            "connection from {peer} closed, which had waited longest for a request: deployment.admin.limits.connections is \
             reached ({more} more were not logged)"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn doors(connections: usize) -> Arc<Doors> {
        let listed = vec!["10.0.0.0/8".parse().expect("a network")];
        Doors::new(Bounds { connections, connections_per_address: 2, listed, ..Bounds::default() })
    }

    #[test]
    fn a_stranger_has_few_until_a_key_is_shown() {
        let doors = doors(100);
        let first = doors.admit(address("192.0.2.1")).expect("room");
        let _second = doors.admit(address("::ffff:192.0.2.1")).expect("room");
        assert!(doors.admit(address("192.0.2.1")).is_none());
        first.showed_key();
        let third = doors.admit(address("192.0.2.1"));
        assert!(third.is_some());
        assert!(doors.admit(address("192.0.2.1")).is_none());
        drop(third);
        assert!(doors.admit(address("192.0.2.1")).is_some());
        let _network = (doors.admit(address("2001:db8::1")), doors.admit(address("2001:db8::2")));
        assert!(doors.admit(address("2001:db8::3")).is_none(), "a network of 64 bits is one client");
        let many: Vec<_> = (0..50).filter_map(|_| doors.admit(address("10.0.0.1"))).collect();
        assert_eq!(many.len(), 50, "the list knows no limit of an address");
    }

    fn strangers(doors: &Arc<Doors>) -> Vec<ConnectionPermit> {
        (0..20).filter_map(|host| doors.admit(IpAddr::from([192, 0, 2, host]))).collect()
    }

    /// They are no longer only waiting for a request.
    fn ask(permits: &[ConnectionPermit]) {
        assert!(permits.iter().filter(|permit| permit.clock.request()).count() <= permits.len());
    }

    #[test]
    fn an_address_that_has_shown_a_key_comes_back() {
        let doors = doors(8);
        let (operator, other) = (address("192.0.2.200"), address("192.0.2.201"));
        doors.admit(operator).expect("room").showed_key();
        let strangers = strangers(&doors);
        ask(&strangers);
        assert_eq!(doors.counts().open.len(), 6);
        assert!(doors.admit(other).is_none());
        let back =
            [doors.admit(operator), doors.admit(address("127.0.0.1"))].map(|permit| permit.expect("room"));
        ask(&back);
        assert!(doors.admit(address("::1")).is_none(), "8 in all");
        let mut counts = doors.counts();
        (0..=u16::MAX).for_each(|host| {
            let [third, fourth] = host.to_be_bytes();
            counts.remember(IpAddr::from([198, 51, third, fourth]));
        });
        assert_eq!((counts.known.len(), counts.is_known(operator)), (MOST_KNOWN, false));
    }

    #[test]
    fn strangers_leave_a_quarter() {
        let doors = doors(8);
        let strangers = strangers(&doors);
        assert_eq!((strangers.len(), doors.counts().open.len()), (20, 6));
        ask(&strangers);
        let listed: Vec<_> = (0..20).filter_map(|host| doors.admit(IpAddr::from([10, 0, 0, host]))).collect();
        ask(&listed);
        assert_eq!(doors.counts().open.len(), 8);
        assert!(doors.admit(address("10.0.0.1")).is_none(), "each has a request");
        drop((strangers, listed));
        let counts = doors.counts();
        assert_eq!((counts.open.len(), counts.strangers, counts.addresses.len()), (0, 0, 0));
    }

    #[test]
    fn who_has_waited_longest_gives_way() {
        let doors = doors(4);
        let own = || doors.admit(address("127.0.0.1")).expect("room");
        let (busy, known, first, second) = (own(), own(), own(), own());
        assert!(busy.clock.request());
        known.showed_key();
        let next = own();
        assert!(!first.clock.request(), "the oldest without a key or request");
        assert!(second.clock.request() && next.clock.request());
        let _last = own();
        assert!(!known.clock.request(), "then the oldest with a key");
        drop((first, known));
        assert_eq!(doors.counts().open.len(), 4);
    }
}
