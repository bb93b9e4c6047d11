//! Idle upstream connections that began with a PROXY header, of one worker.
//!
//! The header names a client, and the server believes it: such a connection is reused only for requests
//! of the same client connection. It is closed when its client leaves, after its idle time, or when more than
//! `keepalive_pool.size` to the same node are idle: of 10,000 clients, those that were busy last keep theirs.

use std::{
    cell::RefCell,
    collections::BTreeMap,
    task::{Context, Poll, Waker},
};

use super::{Idle, ages::Ages};
use crate::stream::Stream;

#[derive(Default)]
pub(crate) struct OwnPool {
    state: RefCell<State>,
}

/// Client, pool number, and the number that [`Ages`] gave.
type ConnectionKey = (u64, u32, u64);

#[derive(Default)]
struct State {
    idle: BTreeMap<ConnectionKey, Idle>,
    ages: Ages,
}

impl State {
    fn remove(&mut self, place: ConnectionKey) -> Option<Idle> {
        let (client, pool, number) = place;
        self.ages.leave(pool, number, client);
        self.idle.remove(&place)
    }
}

impl OwnPool {
    /// As [`super::Pool::take`], of this client's connections only.
    pub(crate) fn take(&self, client: u64, pool: u32, server_name: &[u8]) -> Option<(Stream, u32)> {
        let state = &mut *self.state.borrow_mut();
        let mut context = Context::from_waker(Waker::noop());
        loop {
            let mut own = state.idle.range((client, pool, 0)..=(client, pool, u64::MAX)).rev();
            let (&place, _) = own.find(|(_, idle)| *idle.server_name == *server_name)?;
            let candidate = state.remove(place)?;
            if candidate.stream.poll_readable(&mut context).is_pending() {
                return Some((candidate.stream, candidate.uses));
            }
        }
    }

    pub(super) fn put(
        &self,
        client: u64,
        (pool, server_name): (u32, Box<[u8]>),
        (stream, uses): (Stream, u32),
        (since_ms, expires_ms): (u64, u64),
        size: usize,
    ) {
        let state = &mut *self.state.borrow_mut();
        let number = state.ages.enter(pool, client);
        state.idle.insert((client, pool, number), Idle { stream, server_name, uses, since_ms, expires_ms });
        while let Some((number, client)) = state.ages.surplus(pool, size.max(1)) {
            state.idle.remove(&(client, pool, number));
        }
    }

    /// Closes what is too old or was closed by the other side. Returns how many are left.
    pub(crate) fn sweep(&self, now_ms: u64) -> usize {
        let State { idle, ages } = &mut *self.state.borrow_mut();
        let mut context = Context::from_waker(Waker::noop());
        idle.retain(|&(client, pool, number), entry| {
            let good = entry.expires_ms > now_ms
                && matches!(entry.stream.poll_readable(&mut context), Poll::Pending);
            if !good {
                ages.leave(pool, number, client);
            }
            good
        });
        idle.len()
    }

    /// Also when one of its connections timed out: see [`super::Pool::distrust`].
    pub(crate) fn forget(&self, client: u64) {
        let state = &mut *self.state.borrow_mut();
        let own = state.idle.range((client, 0, 0)..=(client, u32::MAX, u64::MAX));
        let places: Vec<ConnectionKey> = own.map(|(&place, _)| place).collect();
        for place in places {
            state.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener, TcpStream};

    use super::*;

    struct Node {
        listener: TcpListener,
        accepted: Vec<TcpStream>,
    }

    impl Node {
        fn start() -> Node {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
            Node { listener, accepted: Vec::new() }
        }

        fn connect(&mut self) -> Stream {
            let address = self.listener.local_addr().expect("an address");
            let stream = TcpStream::connect(address).expect("connects");
            stream.set_nonblocking(true).expect("non-blocking");
            self.accepted.push(self.listener.accept().expect("accepts").0);
            Stream::Plain(tokio::net::TcpStream::from_std(stream).expect("a stream"))
        }
    }

    fn on_a_runtime(test: impl Future<Output = ()>) {
        tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime").block_on(test);
    }

    fn place(pool: u32, name: &str) -> (u32, Box<[u8]>) {
        (pool, name.as_bytes().into())
    }

    #[test]
    fn nobody_gets_what_is_not_theirs() {
        on_a_runtime(async {
            let (mut node, pool) = (Node::start(), OwnPool::default());
            pool.put(1, place(7, "a"), (node.connect(), 1), (0, 100), 10);
            for (client, number, name) in [(2, 7, "a"), (0, 7, "a"), (1, 8, "a"), (1, 6, "a"), (1, 7, "b")] {
                let taken = pool.take(client, number, name.as_bytes());
                assert!(taken.is_none(), "{client} {number} {name}");
            }
            assert_eq!(pool.take(1, 7, b"a").map(|(_, uses)| uses), Some(1));
            assert!(pool.take(1, 7, b"a").is_none(), "it is in use");
            assert!(pool.state.borrow().ages.is_empty());
        });
    }

    #[test]
    fn idle_connections_are_bounded_and_end_with_their_client() {
        on_a_runtime(async {
            let (mut node, pool) = (Node::start(), OwnPool::default());
            for client in 1..=20 {
                pool.put(client, place(7, ""), (node.connect(), 1), (0, 100), 5);
                pool.put(client, place(8, ""), (node.connect(), 1), (0, 200), 5);
            }
            assert_eq!(pool.sweep(0), 10);
            assert!(
                pool.take(15, 7, b"").is_none() && pool.take(15, 8, b"").is_none(),
                "the oldest made room"
            );
            assert!(pool.take(16, 7, b"").is_some());
            pool.forget(17);
            assert_eq!(pool.sweep(0), 7);
            assert_eq!(pool.sweep(100), 4, "those of the other node have more time");
            for client in 16..=20 {
                pool.forget(client);
            }
            assert_eq!(pool.sweep(0), 0);
            assert!(pool.state.borrow().ages.is_empty());
        });
    }

    #[test]
    fn what_the_node_closed_is_not_used() {
        on_a_runtime(async {
            let (mut node, pool) = (Node::start(), OwnPool::default());
            let stream = node.connect();
            node.accepted.clear();
            std::future::poll_fn(|context| stream.poll_readable(context)).await.expect("the end arrives");
            pool.put(1, place(7, ""), (stream, 1), (0, 100), 10);
            assert!(pool.take(1, 7, b"").is_none());
            assert!(pool.state.borrow().ages.is_empty());
        });
    }
}
