//! Requests that come back: an upstream, a mirror or a batch that points at the gateway itself would fill it with copies of one
//! request. `CDN-Loop` (RFC 8586) counts how often one has been here.
//!
//! The field goes only where a request may return: to ports that this process listens on, or with a request that has returned
//! before. Its member carries a random number of the process, so that nobody else's request is taken for one of ours, and
//! several gateways in a row count for themselves. A client that knows the number can end its own requests with it, no others.

use std::{
    net::{IpAddr, SocketAddr},
    sync::{
        LazyLock, OnceLock,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};
use wire::HeaderId;

use crate::{Reply, Request, request::random_u64};

/// Where this process listens, and how often a request may come back (`apisix.max_own_hops`).
#[derive(Debug)]
struct Own {
    ports: Box<[u16]>,
    limit: u32,
}

static OWN: OnceLock<Own> = OnceLock::new();
static REFUSED: AtomicU64 = AtomicU64::new(0);

/// `tidegate-` and a number of this process.
static NAME: LazyLock<String> = LazyLock::new(|| format!("tidegate-{:016x}", random_u64()));

/// Once, before the first request.
pub fn install(ports: impl IntoIterator<Item = u16>, limit: u32) {
    let _ = OWN.set(Own { ports: ports.into_iter().collect(), limit });
}

/// Requests that were refused.
pub fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Whether one of our sockets has this port.
pub fn is_own_port(port: u16) -> bool {
    OWN.get().is_some_and(|own| own.ports.contains(&port))
}

/// Whether a request that goes to one of these addresses may come back.
pub fn may_return(request: &Request, addresses: &[SocketAddr]) -> bool {
    is_own(addresses, request.connection.local.ip())
        || request.head.headers.known(HeaderId::CdnLoop).is_some_and(|_| hops(request) > 0)
}

/// Whether a connection to one of these leads back here, as far as one can tell. `local`: where the client reached us. Another
/// address of this machine is found out when the request has come back once: then it is where we were reached.
fn is_own(addresses: &[SocketAddr], local: IpAddr) -> bool {
    let is_here = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified() || ip == local.to_canonical();
    addresses.iter().any(|address| is_own_port(address.port()) && is_here(address.ip().to_canonical()))
}

/// How often a request has been sent to the gateway by itself.
fn hops(request: &Request) -> u32 {
    let mut members = request.head.headers.all_known(HeaderId::CdnLoop).flat_map(members);
    members.find_map(own_hops).unwrap_or(0)
}

fn members(value: &[u8]) -> impl Iterator<Item = &[u8]> {
    value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
}

/// `None`: the member is somebody else's.
fn own_hops(member: &[u8]) -> Option<u32> {
    let count = member.strip_prefix(NAME.as_bytes())?.strip_prefix(b";hops=")?;
    // One that says something else has come back at least once.
    Some(std::str::from_utf8(count).ok().and_then(|count| count.parse().ok()).unwrap_or(1))
}

/// The field's value for a request that may come back: what others wrote stays.
pub fn next_value(request: &Request) -> Vec<u8> {
    let mut value = Vec::new();
    let members = request.head.headers.all_known(HeaderId::CdnLoop).flat_map(members);
    for member in members.filter(|member| own_hops(member).is_none()) {
        value.extend_from_slice(member);
        value.extend_from_slice(b", ");
    }
    let hops = came(request).saturating_add(1);
    value.extend_from_slice(format!("{};hops={hops}", *NAME).as_bytes());
    value
}

/// As the request came: what a first attempt has written must not count for the second.
fn came(request: &Request) -> u32 {
    request.extensions.get::<Came>().map_or_else(|| hops(request), |came| came.0)
}

struct Came(u32);

/// Counts, where a request is about to be sent to the gateway itself, or has been before.
#[cold]
pub fn mark(request: &mut Request) {
    let value = next_value(request);
    let hops = came(request);
    request.extensions.insert(Came(hops));
    request.head.headers.set("CDN-Loop", value);
}

/// Ends a loop.
pub fn check(request: &Request) -> Result<(), Box<Reply>> {
    let hops = hops(request);
    let limit = OWN.get().map_or(u32::MAX, |own| own.limit);
    if hops <= limit {
        return Ok(());
    }
    REFUSED.fetch_add(1, Relaxed);
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Error,
            format_args!(
                "a request has come back {limit} times (apisix.max_own_hops), so an upstream, proxy-mirror or batch points \
                 at this gateway itself: host {:?}, path {:?}; {others} more since the line before",
                String::from_utf8_lossy(&request.host),
                String::from_utf8_lossy(&request.path)
            ),
        );
    }
    Err(Box::new(Reply::page(508)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_ours_are_found_among_others() {
        let ours = format!("{};hops=3", *NAME);
        for (value, expected) in [
            (ours.clone(), Some(3)),
            (format!("cdn.example; x=1 , {ours},other"), Some(3)),
            (format!("{};hops=x", *NAME), Some(1)),
            ("tidegate-0000;hops=9".to_owned(), None),
            (NAME.clone(), None),
            (String::new(), None),
        ] {
            assert_eq!(members(value.as_bytes()).find_map(own_hops), expected, "{value}");
        }
    }
}
