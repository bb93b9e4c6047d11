//! Idle upstream connections of one worker, by the pool number of a [`tidegate_plugin_api::upstream::Node`].
//!
//! The number identifies scheme, address, TLS setting and PROXY header. Under TLS the server name counts too: the
//! certificate was verified for that name, and the server may serve by it. Connections that belong to one client are
//! in [`own`].

pub(crate) mod ages;
pub(crate) mod leaving;
pub(crate) mod own;

use std::{
    cell::RefCell,
    task::{Context, Poll, Waker},
};

use rustc_hash::FxHashMap;

use crate::stream::Stream;

struct Idle {
    stream: Stream,
    /// The name of the TLS handshake; empty without TLS.
    server_name: Box<[u8]>,
    /// Requests it has served.
    uses: u32,
    since_ms: u64,
    expires_ms: u64,
}

#[derive(Default)]
pub(crate) struct Pool {
    /// By pool number; most recently used last. Pools of removed addresses leave no entry behind.
    idle: RefCell<FxHashMap<u32, Vec<Idle>>>,
}

impl Pool {
    /// The most recently used connection that is still good. One that became readable while idle was closed (or spoke
    /// out of turn): it is dropped.
    pub(crate) fn take(&self, pool: u32, server_name: &[u8]) -> Option<(Stream, u32)> {
        let mut idle = self.idle.borrow_mut();
        let list = idle.get_mut(&pool)?;
        let mut context = Context::from_waker(Waker::noop());
        while let Some(at) = list.iter().rposition(|idle| *idle.server_name == *server_name) {
            let candidate = list.remove(at);
            if candidate.stream.poll_readable(&mut context).is_pending() {
                return Some((candidate.stream, candidate.uses));
            }
        }
        None
    }

    pub(crate) fn put(
        &self,
        (pool, server_name): (u32, Box<[u8]>),
        (stream, uses): (Stream, u32),
        (since_ms, expires_ms): (u64, u64),
        size: usize,
    ) {
        if size == 0 {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        let list = idle.entry(pool).or_default();
        if list.len() >= size {
            list.remove(0);
        }
        list.push(Idle { stream, server_name, uses, since_ms, expires_ms });
    }

    /// A formerly idle connection timed out. Others that have been idle since `since_ms` may be dead as well, and each
    /// would cost a request: they are closed. Those that served meanwhile are alive.
    pub(crate) fn distrust(&self, pool: u32, since_ms: u64) {
        if let Some(list) = self.idle.borrow_mut().get_mut(&pool) {
            list.retain(|idle| idle.since_ms > since_ms);
        }
    }

    /// Closes what is too old or was closed by the other side. Returns how many are left.
    pub(crate) fn sweep(&self, now_ms: u64) -> usize {
        let mut context = Context::from_waker(Waker::noop());
        let mut left = 0;
        self.idle.borrow_mut().retain(|_, list| {
            list.retain(|entry| {
                entry.expires_ms > now_ms && matches!(entry.stream.poll_readable(&mut context), Poll::Pending)
            });
            left += list.len();
            !list.is_empty()
        });
        left
    }
}
