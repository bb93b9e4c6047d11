//! Which worker serves a new connection: the one with the fewest (ADR 45).
//!
//! The kernel spreads connections over the workers' sockets by a hash of addresses and ports: of 16 connections some workers get four
//! and some none, and with long connections (HTTP/2, gRPC, a balancer in front) it stays so. The worker that accepts a connection
//! therefore passes it on where another has fewer.

use std::{
    collections::VecDeque,
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
};

use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::settings::Listen;

/// A worker may have one connection more than the others for each so many that it has: passing one on costs some microseconds.
const TOLERANCE: usize = 25;

/// As many more may a worker have whose connections are over within a second: chance evens them out.
const TOLERANCE_WHILE_SHORT: usize = 8;

/// An accepted connection on its way to the worker that serves it.
pub(crate) struct Passed {
    pub(crate) stream: TcpStream,
    pub(crate) peer: SocketAddr,
    pub(crate) listen: Listen,
    _reserved: Reserved,
}

/// The connections of one worker, as the others see them.
#[derive(Debug, Default)]
pub(crate) struct Load {
    /// Open ones, and those on their way to it.
    open: AtomicUsize,
    tolerance: AtomicUsize,
    pub(crate) arrived: Notify,
}

impl Load {
    pub(crate) fn opened(&self) {
        self.open.fetch_add(1, Relaxed);
    }

    pub(crate) fn closed(&self) {
        self.open.fetch_sub(1, Relaxed);
    }

    /// Called each second. `accepted`: since the last call.
    pub(crate) fn set_tolerance(&self, accepted: u64) {
        let short = accepted > self.open.load(Relaxed) as u64;
        self.tolerance.store(if short { TOLERANCE_WHILE_SHORT } else { 0 }, Relaxed);
    }
}

/// Counts a connection for a worker until it is counted as open.
#[derive(Debug)]
pub(crate) struct Reserved(Arc<Load>);

impl Drop for Reserved {
    fn drop(&mut self) {
        self.0.closed();
    }
}

/// Where a connection goes.
pub(crate) enum Choice {
    /// It stays; counted until the guard is dropped.
    Own(Reserved),
    Other(Target),
}

/// A place other than that of the worker that accepted, where it is counted already.
pub(crate) struct Target {
    place: usize,
    reserved: Reserved,
}

/// Shared by all workers.
#[derive(Default)]
pub(crate) struct AcceptBalance(Mutex<Vec<WorkerLoad>>);

#[derive(Default)]
struct WorkerLoad {
    /// `None`: nothing is passed on to it.
    load: Option<Arc<Load>>,
    waiting: VecDeque<Passed>,
}

impl AcceptBalance {
    /// For a new worker. It gets what waits for its predecessor.
    pub(crate) fn enter(&self, place: usize) -> Arc<Load> {
        let load = Arc::new(Load::default());
        let mut places = self.0.lock();
        if places.len() <= place {
            places.resize_with(place + 1, WorkerLoad::default);
        }
        if let Some(place) = places.get_mut(place) {
            for passed in &mut place.waiting {
                load.opened();
                passed._reserved = Reserved(load.clone());
            }
            place.load = Some(load.clone());
            load.arrived.notify_one();
        }
        load
    }

    /// Nothing is passed on to this place any more; what waits there stays for [`AcceptBalance::take`], or for the next worker.
    pub(crate) fn leave(&self, place: usize) {
        if let Some(place) = self.0.lock().get_mut(place) {
            place.load = None;
        }
    }

    /// For a connection that the worker of a place has accepted. `None`: there is no choice.
    pub(crate) fn choose(&self, own: usize) -> Option<Choice> {
        let places = self.0.lock();
        let mine = places.get(own)?.load.as_ref()?;
        let loads = places.iter().enumerate().filter_map(|(place, one)| Some((place, one.load.as_ref()?)));
        let (place, least) = loads.min_by_key(|(_, load)| load.open.load(Relaxed))?;
        let open = mine.open.load(Relaxed);
        let allowed = least.open.load(Relaxed) + open / TOLERANCE + mine.tolerance.load(Relaxed);
        if open <= allowed {
            mine.opened();
            return Some(Choice::Own(Reserved(mine.clone())));
        }
        least.opened();
        Some(Choice::Other(Target { place, reserved: Reserved(least.clone()) }))
    }

    /// Passes a connection on; gives it back where the place has been left meanwhile.
    pub(crate) fn pass(
        &self,
        target: Target,
        stream: TcpStream,
        peer: SocketAddr,
        listen: &Listen,
    ) -> Result<(), TcpStream> {
        let mut places = self.0.lock();
        let Some(place) = places.get_mut(target.place).filter(|place| place.load.is_some()) else {
            return Err(stream);
        };
        let load = target.reserved.0.clone();
        let listen = listen.clone();
        place.waiting.push_back(Passed { stream, peer, listen, _reserved: target.reserved });
        drop(places);
        load.arrived.notify_one();
        Ok(())
    }

    /// The next connection that was passed on to a place.
    pub(crate) fn take(&self, place: usize) -> Option<Passed> {
        self.0.lock().get_mut(place)?.waiting.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Accepts a connection at a place, and counts it where it ends up.
    fn accept(balance: &AcceptBalance, loads: &[Arc<Load>], at: usize) -> usize {
        let place = match balance.choose(at).expect("a choice") {
            Choice::Own(_reserved) => at,
            Choice::Other(target) => target.place,
        };
        loads[place].opened();
        place
    }

    fn open(loads: &[Arc<Load>]) -> Vec<usize> {
        loads.iter().map(|load| load.open.load(Relaxed)).collect()
    }

    #[test]
    fn few_connections_are_even_and_many_nearly() {
        let balance = AcceptBalance::default();
        let loads: Vec<_> = (0..8).map(|place| balance.enter(place)).collect();
        for _ in 0..16 {
            accept(&balance, &loads, 3);
        }
        assert_eq!(open(&loads), [2; 8]);
        for number in 0..984 {
            // Where the kernel prefers one.
            accept(&balance, &loads, if number % 3 == 0 { number % 8 } else { 0 });
        }
        let open = open(&loads);
        let (most, least) = (open.iter().max().unwrap(), open.iter().min().unwrap());
        assert_eq!(open.iter().sum::<usize>(), 1000);
        assert!((most - least) * 20 <= 125, "{open:?}");
    }

    #[test]
    fn short_connections_stay_where_they_came_unless_one_worker_has_many_more() {
        let balance = AcceptBalance::default();
        let loads: Vec<_> = (0..2).map(|place| balance.enter(place)).collect();
        loads[0].set_tolerance(1000);
        for _ in 0..8 {
            assert_eq!(accept(&balance, &loads, 0), 0);
        }
        assert_eq!(accept(&balance, &loads, 0), 0);
        assert_eq!(accept(&balance, &loads, 0), 1);
    }

    #[test]
    fn a_place_that_is_left_gets_nothing() {
        let balance = AcceptBalance::default();
        let loads: Vec<_> = (0..2).map(|place| balance.enter(place)).collect();
        loads[0].opened();
        let Some(Choice::Other(target)) = balance.choose(0) else { panic!("the other has fewer") };
        balance.leave(1);
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("an address");
        let listen = Listen { address, tls: false, proxy_protocol: false, optional: false, stream: None };
        let stream = TcpStream::connect(address).expect("connects");
        let stream = balance.pass(target, stream, address, &listen).expect_err("given back");
        assert_eq!(open(&loads), [1, 0]);
        assert!(matches!(balance.choose(0), Some(Choice::Own(_))));
        // What waits for a worker that is given up is for the next one.
        let loads = [loads[0].clone(), balance.enter(1)];
        let Some(Choice::Other(target)) = balance.choose(0) else { panic!("the other has fewer") };
        assert!(balance.pass(target, stream, address, &listen).is_ok());
        balance.leave(1);
        let next = balance.enter(1);
        assert_eq!((open(&loads), next.open.load(Relaxed)), (vec![1, 0], 1));
        assert!(balance.take(1).is_some() && balance.take(1).is_none());
        assert_eq!(next.open.load(Relaxed), 0);
    }
}
