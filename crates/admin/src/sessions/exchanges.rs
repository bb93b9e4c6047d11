//! How many browsers' answers are being exchanged at the identity provider: of one client, and of all.
//!
//! Nothing of such an answer can be guessed, so that wrong ones are not counted, as wrong passwords are: a client
//! that makes them would lock out others behind the same address. Each costs a request to the provider, and waits for that.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
};

use super::attempts::network;

/// At a time.
const MOST: usize = 32;

/// Of another machine. Behind the loopback address may be many people, each with a tunnel.
const MOST_OF_CLIENT: usize = 8;

#[derive(Default)]
pub(crate) struct Exchanges(Mutex<HashMap<IpAddr, usize>>);

/// One that is under way, until it is dropped.
pub(crate) struct Exchange<'a> {
    of: &'a Exchanges,
    client: IpAddr,
}

impl Exchanges {
    /// `None`: the limit is reached.
    pub(crate) fn begin(&self, address: IpAddr) -> Option<Exchange<'_>> {
        let client = network(address);
        let most = if client.is_loopback() { MOST } else { MOST_OF_CLIENT };
        let mut table = self.table();
        if table.values().sum::<usize>() >= MOST || table.get(&client).is_some_and(|count| *count >= most) {
            return None;
        }
        *table.entry(client).or_default() += 1;
        Some(Exchange { of: self, client })
    }

    fn table(&self) -> MutexGuard<'_, HashMap<IpAddr, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Exchange<'_> {
    fn drop(&mut self) {
        let mut table = self.of.table();
        if let Some(count) = table.get_mut(&self.client) {
            *count -= 1;
            if *count == 0 {
                table.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_bounded_and_end() {
        let exchanges = Exchanges::default();
        let of = |last: u8| exchanges.begin(IpAddr::from([192, 0, 2, last]));
        let held: Vec<_> = (0..MOST_OF_CLIENT).map(|_| of(1).expect("room")).collect();
        assert!(of(1).is_none(), "of one client");
        let others: Vec<_> = (MOST_OF_CLIENT..MOST).map(|number| of(number as u8).expect("room")).collect();
        assert!(of(99).is_none(), "of all");
        drop(held);
        assert!(of(1).is_some());
        drop(others);
        assert!(exchanges.table().is_empty());
        let local: Vec<_> = (0..=MOST).map(|_| exchanges.begin(IpAddr::from([127, 0, 0, 1]))).collect();
        assert_eq!(local.iter().flatten().count(), MOST);
    }
}
