//! Requests that come back: an upstream, a mirror or a batch that points at the gateway itself would fill it with copies of one
//! request. `CDN-Loop` (RFC 8586) counts how often one has been here.
//!
//! The field goes only where a request may return: to ports that this process listens on, or with a request that has returned
//! before. Its member carries a random number of the process, so that no other gateway's request is taken for one of ours, and
//! several gateways in a row count for themselves. A client that knows the number can end its own requests with it, no others.
//!
//! A plugin skips work because of it (a copy, a log entry) only for a request with a [`Ticket`], which is valid
//! once and which no client gets to see.

mod field;
mod origin;
mod side;
mod ticket;

use std::{
    net::{IpAddr, SocketAddr},
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use tidegate_protocol::HeaderId;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use self::{
    field::{members, read, value},
    origin::{OWN, Own, is_own_port},
};
use crate::{Reply, Request};

pub use side::{
    Marked, SideRequestAction, delivering, is_for_side_request, left_out, of_copy, on_behalf,
    side_request_action, within,
};
pub use ticket::Ticket;

pub use self::origin::{Origin, origin};

static REFUSED: AtomicU64 = AtomicU64::new(0);

/// Once, before the first request.
pub fn install(ports: impl IntoIterator<Item = u16>, limit: u32) {
    let _ = OWN.set(Own { ports: ports.into_iter().collect(), limit });
}

/// Requests that were refused.
pub fn refused() -> u64 {
    REFUSED.load(Relaxed)
}

/// Whether a request that goes to one of these addresses may come back.
pub fn may_return(request: &Request, addresses: &[SocketAddr]) -> bool {
    is_own(addresses, request.connection.local.ip())
        || request.head.headers.known(HeaderId::CdnLoop).is_some_and(|_| origin(request).hops > 0)
}

/// Whether a connection to one of these leads back here, as far as is known. `local`: where the client reached us. Another
/// address of this machine is recognised once the request has come back: then it is where we were reached.
fn is_own(addresses: &[SocketAddr], local: IpAddr) -> bool {
    let is_here = |ip: IpAddr| ip.is_loopback() || ip.is_unspecified() || ip == local.to_canonical();
    addresses.iter().any(|address| is_own_port(address.port()) && is_here(address.ip().to_canonical()))
}

/// The field's value for a request that comes back for certain. It is believed while the ticket is kept.
pub fn next_value(request: &Request) -> (Vec<u8>, Ticket) {
    let next = onward(request);
    let ticket = Ticket::new(next);
    (value(request.head.headers.all_known(HeaderId::CdnLoop), next, Some(&ticket)), ticket)
}

fn onward(request: &Request) -> Origin {
    let came = origin(request);
    Origin { hops: came.hops.saturating_add(1), ..came }
}

/// Counts, where a request is about to be sent to the gateway itself, or has been before.
#[cold]
pub fn mark(request: &mut Request, addresses: &[SocketAddr]) {
    let next = onward(request);
    // Others get no ticket: they could show it to their clients before it has come here.
    let is_own = is_own(addresses, request.connection.local.ip());
    let ticket = is_own.then(|| Ticket::new(next));
    let value = value(request.head.headers.all_known(HeaderId::CdnLoop), next, ticket.as_ref());
    request.extensions.insert(ticket);
    request.head.headers.set("CDN-Loop", value);
}

/// Ends a loop, and records the origin of a request that has come back.
pub fn check(request: &mut Request) -> Result<(), Box<Reply>> {
    let mut found = request.head.headers.all_known(HeaderId::CdnLoop).flat_map(members);
    let Some((claimed, ticket)) = found.find_map(read) else { return Ok(()) };
    let origin = ticket.and_then(ticket::redeem).unwrap_or(claimed);
    request.extensions.insert(origin);
    let limit = OWN.get().map_or(u32::MAX, |own| own.limit);
    if origin.hops > limit {
        return Err(end(
            request,
            format_args!(
                "a request has come back {limit} times (apisix.max_own_hops), so an upstream, proxy-mirror or batch points at this gateway itself"
            ),
        ));
    }
    if origin.side > side::MOST {
        return Err(end(
            request,
            format_args!(
                "a request made by a plugin led to more than {} others in a row, so a plugin points at this \
                 gateway itself",
                side::MOST
            ),
        ));
    }
    Ok(())
}

#[cold]
fn end(request: &Request, reason: std::fmt::Arguments) -> Box<Reply> {
    REFUSED.fetch_add(1, Relaxed);
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        let (host, path) = (String::from_utf8_lossy(&request.host), String::from_utf8_lossy(&request.path));
        error_log::log(
            Level::Error,
            format_args!("{reason}: host {host:?}, path {path:?}; {others} more since the previous line"),
        );
    }
    Box::new(Reply::page(508))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hops::field::NAME;

    #[test]
    fn members_of_ours_are_found_among_others() {
        let ours = format!("{};hops=3", *NAME);
        let of = |hops, side| Some((Origin { hops, side, ..Origin::default() }, None));
        for (value, expected) in [
            (ours.clone(), of(3, 0)),
            (format!("cdn.example; x=1 , {ours},other"), of(3, 0)),
            (format!("{};side=2;hops=3", *NAME), of(3, 2)),
            (format!("{};hops=x", *NAME), of(1, 0)),
            ("tidegate-0000;hops=9".to_owned(), None),
            (NAME.clone(), None),
            (String::new(), None),
        ] {
            assert_eq!(members(value.as_bytes()).find_map(read), expected, "{value}");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let next = Origin { hops: 4, side: 1, of_delivery: true, is_proved: false };
        let ticket = Ticket::new(next);
        let others = format!("cdn.example, {};hops=9", *NAME);
        let written = value(std::iter::once(others.as_bytes()), next, Some(&ticket));
        let mut members = members(&written);
        assert_eq!(members.next(), Some(b"cdn.example".as_slice()));
        let (claimed, number) = members.next().and_then(read).expect("ours");
        assert_eq!((claimed.hops, claimed.side, members.next()), (4, 1, None));
        let proved = Some(Origin { is_proved: true, ..next });
        assert_eq!(number.and_then(ticket::redeem), proved);
        assert_eq!(number.and_then(ticket::redeem), None, "it is good once");
    }
}
