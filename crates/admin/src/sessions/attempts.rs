//! How often it may be tried to sign in: of one address, and as one name.

use std::{
    collections::HashMap,
    net::{IpAddr, Ipv6Addr},
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

/// Failures are forgotten so long after the first of them.
const WINDOW: Duration = Duration::from_secs(300);

const MOST_OF_ADDRESS: u32 = 10;

/// From all addresses together.
const MOST_OF_NAME: u32 = 20;

/// Addresses, and names, that are remembered at a time.
const REMEMBERED: usize = 4096;

#[derive(Default)]
pub(crate) struct Attempts(Mutex<Tables>);

#[derive(Default)]
struct Tables {
    /// Hashed with a random seed: clients choose both.
    clients: HashMap<Client, Failures>,
    names: HashMap<String, Failures>,
}

/// Behind the loopback address may be many people, each with a tunnel: one who mistypes must not keep the others out.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Client {
    network: IpAddr,
    /// On loopback only.
    name: Option<String>,
}

impl Client {
    fn of(address: IpAddr, name: Option<&str>) -> Client {
        let name = name.filter(|_| address.to_canonical().is_loopback()).map(str::to_owned);
        Client { network: network(address), name }
    }
}

#[derive(Clone, Copy)]
struct Failures {
    count: u32,
    since: Instant,
}

impl Attempts {
    /// Counts an attempt as failed until [`Attempts::succeeded`] says otherwise: many at once are not more than one after
    /// another. The error is for how many seconds none is taken.
    pub(crate) fn begin(&self, address: IpAddr, name: Option<&str>, now: Instant) -> Result<(), u64> {
        let mut tables = self.tables();
        let client = Client::of(address, name);
        blocked(&tables.clients, &client, MOST_OF_ADDRESS, now)?;
        if let Some(name) = name {
            blocked(&tables.names, name, MOST_OF_NAME, now)?;
            count(&mut tables.names, name.to_owned(), now);
        }
        count(&mut tables.clients, client, now);
        Ok(())
    }

    /// Takes one attempt back, and no other: who can sign in as one does not get to try as many.
    pub(crate) fn succeeded(&self, address: IpAddr, name: Option<&str>) {
        let mut tables = self.tables();
        take_back(&mut tables.clients, &Client::of(address, name));
        if let Some(name) = name {
            take_back(&mut tables.names, name);
        }
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn blocked<K, Q>(table: &HashMap<K, Failures>, key: &Q, most: u32, now: Instant) -> Result<(), u64>
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    let Some(failures) = table.get(key).filter(|failures| failures.count >= most) else { return Ok(()) };
    match WINDOW.checked_sub(now.saturating_duration_since(failures.since)) {
        Some(rest) if !rest.is_zero() => Err(rest.as_secs().max(1)),
        _ => Ok(()),
    }
}

fn count<K: std::hash::Hash + Eq + Clone>(table: &mut HashMap<K, Failures>, key: K, now: Instant) {
    let is_over = |failures: &Failures| now.saturating_duration_since(failures.since) >= WINDOW;
    if table.len() >= REMEMBERED && !table.contains_key(&key) {
        table.retain(|_, failures| !is_over(failures));
        if table.len() >= REMEMBERED {
            // Those that have failed least, and of them the oldest: a client that is being held off stays so.
            let least = table.iter().min_by_key(|(_, failures)| (failures.count, failures.since));
            if let Some(key) = least.map(|(key, _)| key.clone()) {
                table.remove(&key);
            }
        }
    }
    let failures = table.entry(key).or_insert(Failures { count: 0, since: now });
    if is_over(failures) {
        *failures = Failures { count: 0, since: now };
    }
    failures.count = failures.count.saturating_add(1);
}

fn take_back<K, Q>(table: &mut HashMap<K, Failures>, key: &Q)
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    if let Some(failures) = table.get_mut(key) {
        failures.count = failures.count.saturating_sub(1);
        if failures.count == 0 {
            table.remove(key);
        }
    }
}

/// A client has all of an IPv6 network of 64 bits to itself.
pub(super) fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX))),
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_wait_after_failures() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        let address = |last: u8| IpAddr::from([192, 0, 2, last]);
        for _ in 0..MOST_OF_ADDRESS {
            assert_eq!(attempts.begin(address(1), Some("ops"), start), Ok(()));
        }
        assert_eq!(attempts.begin(address(1), None, start), Err(300));
        assert_eq!(attempts.begin(address(2), Some("ops"), start), Ok(()), "another address may");
        attempts.succeeded(address(2), Some("ops"));
        assert_eq!(
            attempts.begin(address(1), None, start),
            Err(300),
            "a success elsewhere opens nothing here"
        );
        for last in 3..3 + (MOST_OF_NAME - MOST_OF_ADDRESS) as u8 {
            assert_eq!(attempts.begin(address(last), Some("ops"), start), Ok(()), "{last}");
        }
        assert!(attempts.begin(address(99), Some("ops"), start).is_err(), "from wherever");
        assert_eq!(attempts.begin(address(1), Some("ops"), start + WINDOW), Ok(()));
        let network = |last: u16| IpAddr::from([0x2001, 0xdb8, 0, 0, 0, 0, 0, last]);
        for last in 0..MOST_OF_ADDRESS as u16 {
            assert_eq!(attempts.begin(network(last), None, start), Ok(()));
        }
        assert!(attempts.begin(network(999), None, start).is_err(), "a network of 64 bits is one client");
    }

    #[test]
    fn people_of_one_tunnel_do_not_lock_each_other() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for local in [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])] {
            for _ in 0..MOST_OF_ADDRESS {
                assert_eq!(attempts.begin(local, Some("typist"), start), Ok(()));
            }
            assert!(attempts.begin(local, Some("typist"), start).is_err(), "{local}");
            assert_eq!(attempts.begin(local, Some("other"), start), Ok(()), "{local}");
            attempts.succeeded(local, Some("other"));
            assert_eq!(attempts.begin(local, None, start), Ok(()), "{local}");
            assert!(attempts.begin(local, Some("typist"), start).is_err(), "{local}");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (attempts, start) = (Attempts::default(), Instant::now());
        for _ in 0..MOST_OF_NAME {
            let _ = attempts.begin(IpAddr::from([10, 0, 0, 1]), Some("held"), start);
        }
        for number in 0..2 * REMEMBERED as u32 {
            let address = IpAddr::from(number.to_be_bytes());
            assert_eq!(attempts.begin(address, Some(&format!("n{number}")), start), Ok(()));
        }
        let tables = attempts.tables();
        assert_eq!((tables.clients.len(), tables.names.len()), (REMEMBERED, REMEMBERED));
        drop(tables);
        assert!(
            attempts.begin(IpAddr::from([10, 0, 0, 1]), None, start).is_err(),
            "who is held off stays so"
        );
    }
}
