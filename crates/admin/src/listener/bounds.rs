//! What connections to a listener may take up before a client has shown a key, and in total.
//!
//! A client that is neither on the list nor has shown a key is a stranger. Strangers together leave a quarter of the
//! connections to the others, and one address has few of them: a client cannot lock the operator out.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ipnet::IpNet;
use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};
use tokio::sync::Semaphore;

/// Ten lines in ten seconds.
static REFUSED: Limiter = Limiter::new(10, 10_000);

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
    open: usize,
    strangers: usize,
    /// Of strangers. Hashed with a random seed: clients choose addresses.
    addresses: HashMap<IpAddr, u32>,
}

/// An open connection; dropping it makes room.
pub(super) struct ConnectionPermit {
    doors: Arc<Doors>,
    /// Of a stranger.
    stranger: Option<IpAddr>,
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
        let listed = self.bounds.listed.iter().any(|network| network.contains(&peer));
        let mut counts = self.counts();
        if counts.open >= self.bounds.connections {
            return Err("connections");
        }
        if listed {
            counts.open += 1;
            return Ok(ConnectionPermit { doors: self.clone(), stranger: None });
        }
        if counts.strangers >= self.bounds.connections - self.bounds.connections / 4 {
            return Err("connections");
        }
        let peer = network(peer);
        let limit = self.bounds.connections_per_address;
        let of_address = counts.addresses.get(&peer).copied().unwrap_or(0);
        if limit > 0 && of_address >= limit {
            return Err("connections_per_address");
        }
        counts.addresses.insert(peer, of_address + 1);
        counts.open += 1;
        counts.strangers += 1;
        Ok(ConnectionPermit { doors: self.clone(), stranger: Some(peer) })
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ConnectionPermit {
    /// Its client has shown its key.
    pub(crate) fn showed_key(&mut self) {
        let Some(address) = self.stranger.take() else { return };
        let mut counts = self.doors.counts();
        counts.strangers -= 1;
        if let Some(count) = counts.addresses.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.addresses.remove(&address);
            }
        }
    }
}

impl Drop for ConnectionPermit {
    fn drop(&mut self) {
        self.showed_key();
        self.doors.counts().open -= 1;
    }
}

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
        let mut first = doors.admit(address("192.0.2.1")).expect("room");
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

    #[test]
    fn strangers_leave_a_quarter() {
        let doors = doors(8);
        let strangers: Vec<_> =
            (0..20).filter_map(|host| doors.admit(IpAddr::from([192, 0, 2, host]))).collect();
        assert_eq!(strangers.len(), 6);
        let listed: Vec<_> = (0..20).filter_map(|host| doors.admit(IpAddr::from([10, 0, 0, host]))).collect();
        assert_eq!(listed.len(), 2);
        drop((strangers, listed));
        let counts = doors.counts();
        assert_eq!((counts.open, counts.strangers, counts.addresses.len()), (0, 0, 0));
    }
}
