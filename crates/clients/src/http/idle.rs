//! Idle connections, kept per thread and server, so that a worker never takes a lock.

use std::{
    cell::RefCell,
    time::{Duration, Instant},
};

use ahash::AHashMap;
use tidegate_model::endpoint::Endpoint;

use super::{connect::TlsWanted, connection::Connection, proxies::Proxy};

/// Servers with idle connections per thread; past that all are dropped.
const MAX_POOLS: usize = 256;

thread_local! {
    static IDLE: RefCell<AHashMap<String, Vec<(Connection, Instant)>>> = RefCell::default();
}

/// Requests with the same name may share connections.
pub(super) fn pool_name(endpoint: &Endpoint, tls: &TlsWanted, proxy: Option<&Proxy>) -> String {
    let identity = tls.client.as_ref().map_or("", |(chain, _)| chain);
    let Endpoint { host, port, .. } = endpoint;
    let mut name = match endpoint.tls {
        false => format!("{host} {port}"),
        true => format!("{host} {port} {} {identity}", tls.verify),
    };
    if let Some(Proxy { endpoint, authorization }) = proxy {
        // A tunnel belongs to those who were let through.
        let shown = authorization.as_deref().unwrap_or_default();
        name.push_str(&format!(" by {} {shown}", endpoint.host_header()));
    }
    name
}

/// The connection that was used last, unless it is closed or too old.
pub(super) fn take(pool: &str, keepalive_timeout: Duration) -> Option<Connection> {
    IDLE.with_borrow_mut(|pools| {
        let idle = pools.get_mut(pool)?;
        while let Some((connection, since)) = idle.pop() {
            if !connection.requests.is_closed() && since.elapsed() < keepalive_timeout {
                return Some(connection);
            }
        }
        None
    })
}

pub(super) fn keep(pool: &str, connection: Connection, limit: usize) {
    IDLE.with_borrow_mut(|pools| {
        if pools.len() >= MAX_POOLS && !pools.contains_key(pool) {
            pools.clear();
        }
        let idle = pools.entry(pool.to_owned()).or_default();
        if idle.len() < limit {
            idle.push((connection, Instant::now()));
        }
    });
}

/// Drops all idle connections of a server.
pub(super) fn forget(pool: &str) {
    IDLE.with_borrow_mut(|pools| pools.remove(pool));
}
