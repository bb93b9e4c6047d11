//! File descriptors that clients of the proxy leave free, so that the Admin API can still be asked.
//!
//! The kernel assigns the lowest free number. A new descriptor with a number above a threshold therefore shows that as
//! many are open, without a counter.

use std::{
    io,
    os::fd::{AsFd, AsRawFd},
    sync::atomic::{AtomicI32, Ordering::Relaxed},
};

use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};

/// One part in so many of all descriptors is for connections that requests of clients need: to nodes, and of
/// plugins.
const SHARE_OF_REQUESTS: u64 = 8;
/// The upper bound of that part.
const MOST_FOR_REQUESTS: u64 = 1024;

/// One line in ten seconds.
static REFUSED: Limiter = Limiter::new(1, 10_000);

static FOR_CLIENTS: AtomicI32 = AtomicI32::new(i32::MAX);
static FOR_REQUESTS: AtomicI32 = AtomicI32::new(i32::MAX);

/// `limit`: of the process. `reserved`: `deployment.admin.limits.reserved_descriptors`.
pub fn set_limit(limit: u64, reserved: u64) {
    let (clients, requests) = thresholds(limit, reserved);
    FOR_CLIENTS.store(clients, Relaxed);
    FOR_REQUESTS.store(requests, Relaxed);
}

/// The first descriptor that a client may not have, and that a connection for a request may not have.
fn thresholds(limit: u64, reserved: u64) -> (i32, i32) {
    let requests = limit - reserved.min(limit / 8);
    let clients = requests - (limit / SHARE_OF_REQUESTS).min(MOST_FOR_REQUESTS);
    let number = |threshold| i32::try_from(threshold).unwrap_or(i32::MAX);
    (number(clients), number(requests))
}

/// Whether a new connection of a client leaves enough; if not it is to be closed.
pub fn spare_for_client(connection: &impl AsFd) -> bool {
    let spare = below(connection, &FOR_CLIENTS);
    if !spare && let Some(more) = REFUSED.pass() {
        log(
            Level::Critical,
            format_args!(
                "connections of clients are refused: the last file descriptors are kept for requests and the Admin API; \
                 raise ulimit -n ({more} more were not logged)"
            ),
        );
    }
    spare
}

/// Whether a new connection of a client is among the last sixteenth that they may have.
pub fn is_tight(connection: &impl AsFd) -> bool {
    let limit = FOR_CLIENTS.load(Relaxed);
    connection.as_fd().as_raw_fd() >= limit - (limit / 16).max(1)
}

/// Passes on a connection that a request needs, or the error that too few descriptors are left.
pub fn spared<T: AsFd>(connection: T) -> io::Result<T> {
    match below(&connection, &FOR_REQUESTS) {
        true => Ok(connection),
        false => {
            Err(io::Error::other("the last file descriptors are kept for the Admin API; raise ulimit -n"))
        }
    }
}

fn below(descriptor: &impl AsFd, threshold: &AtomicI32) -> bool {
    descriptor.as_fd().as_raw_fd() < threshold.load(Relaxed)
}

#[cfg(test)]
mod tests {
    use super::thresholds;

    #[test]
    fn a_reserve_never_takes_more_than_an_eighth() {
        for (limit, reserved, clients, requests) in [
            (256, 32, 192, 224),
            (64, 32, 48, 56),
            (65_536, 32, 64_480, 65_504),
            (65_536, 0, 64_512, 65_536),
            (u64::MAX, 32, i32::MAX, i32::MAX),
        ] {
            assert_eq!(thresholds(limit, reserved), (clients, requests), "{limit} {reserved}");
        }
    }
}
