//! Limits the number of connections: of all clients together, and of one address, over all workers.
//!
//! Both limits are off by default. A refused connection is closed silently: an answer would cost more than the refusal
//! saves.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use parking_lot::Mutex;

/// Enough that two workers rarely contend for a lock, which is held for one lookup.
const SHARDS: usize = 64;

/// Counts connections of clients over all workers, against their limits.
#[derive(Debug)]
pub struct Admission {
    /// 0: no limit.
    total_limit: usize,
    /// 0: no limit.
    address_limit: u32,
    total: AtomicUsize,
    /// With a random hash: clients choose addresses.
    state: RandomState,
    addresses: Vec<Mutex<HashMap<IpAddr, u32>>>,
}

/// An admitted connection; dropping it makes room.
#[derive(Debug)]
pub struct Admitted {
    admission: Arc<Admission>,
    address: Option<IpAddr>,
}

impl Admission {
    /// `None` without any limit.
    pub fn new(total_limit: usize, address_limit: u32) -> Option<Arc<Admission>> {
        (total_limit > 0 || address_limit > 0).then(|| {
            Arc::new(Admission {
                total_limit,
                address_limit,
                total: AtomicUsize::new(0),
                state: RandomState::new(),
                addresses: (0..SHARDS).map(|_| Mutex::default()).collect(),
            })
        })
    }

    /// `None`: too many are open.
    pub fn admit(self: &Arc<Admission>, address: IpAddr) -> Option<Admitted> {
        let before = self.total.fetch_add(1, Ordering::Relaxed);
        let mut admitted = Admitted { admission: self.clone(), address: None };
        if self.total_limit > 0 && before >= self.total_limit {
            return None;
        }
        if self.address_limit > 0 {
            let address = network(address);
            let mut counts = self.shard(address)?.lock();
            let count = counts.entry(address).or_insert(0);
            if *count >= self.address_limit {
                return None;
            }
            *count += 1;
            admitted.address = Some(address);
        }
        Some(admitted)
    }

    fn shard(&self, address: IpAddr) -> Option<&Mutex<HashMap<IpAddr, u32>>> {
        self.addresses.get(self.state.hash_one(address) as usize % SHARDS)
    }
}

/// An IPv6 client usually controls a whole /64.
pub(crate) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let bits = address.to_bits() & !u128::from(u64::MAX);
            IpAddr::V6(Ipv6Addr::from_bits(bits))
        }
        address => address,
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.admission.total.fetch_sub(1, Ordering::Relaxed);
        let Some(address) = self.address else { return };
        let Some(shard) = self.admission.shard(address) else { return };
        let mut counts = shard.lock();
        if let Some(count) = counts.get_mut(&address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn room_is_counted_and_given_back() {
        assert!(Admission::new(0, 0).is_none());
        let admission = Admission::new(3, 2).expect("limits");
        let one = admission.admit(address("10.0.0.1"));
        let two = admission.admit(address("::ffff:10.0.0.1"));
        assert!(one.is_some() && two.is_some());
        assert!(admission.admit(address("10.0.0.1")).is_none(), "two of an address");
        let three = admission.admit(address("10.0.0.2"));
        assert!(three.is_some());
        assert!(admission.admit(address("10.0.0.3")).is_none(), "three together");
        drop((one, three));
        assert!(admission.admit(address("10.0.0.1")).is_some());
        drop(two);
        assert_eq!(admission.total.load(Ordering::Relaxed), 0);
        assert!(admission.addresses.iter().all(|shard| shard.lock().is_empty()));
    }

    #[test]
    fn networks_of_ipv6_count_as_one() {
        let admission = Admission::new(0, 1).expect("limits");
        let _held = admission.admit(address("2001:db8::1"));
        assert!(admission.admit(address("2001:db8::2")).is_none());
        assert!(admission.admit(address("2001:db8:0:1::1")).is_some());
    }
}
