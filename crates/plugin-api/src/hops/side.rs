//! Requests that plugins make: questions to an authorisation service, documents of a provider, copies, batches of logs. One that
//! leads back to the gateway may cause the next.

use std::{
    future::Future,
    net::SocketAddr,
    sync::atomic::{AtomicU64, Ordering::Relaxed},
};

use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use super::{
    Ticket,
    field::value,
    origin::{Origin, is_own_port, origin},
};
use crate::Request;

/// How many side requests in a row may lead to the gateway itself: a copy whose route asks an authorisation service that
/// is a route as well.
pub(super) const MOST: u32 = 2;

tokio::task_local! {
    static CURRENT: Origin;
}

static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// For whom the running code makes requests.
pub(super) fn current() -> Origin {
    CURRENT.try_with(|origin| *origin).unwrap_or_default()
}

/// Whether the running code works for a request that a plugin of this gateway has made.
pub fn is_for_side_request() -> bool {
    current().side > 0
}

/// Runs `work`, one poll of a future, on behalf of a request.
pub fn within<T>(origin: Origin, work: impl FnOnce() -> T) -> T {
    CURRENT.sync_scope(origin, work)
}

/// A future that is on its own and makes requests on behalf of another.
pub fn on_behalf<F: Future>(origin: Origin, future: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(origin, future)
}

/// A batch of a logger or of a tracer.
pub fn delivering<F: Future>(future: F) -> impl Future<Output = F::Output> {
    on_behalf(Origin { of_delivery: true, ..Origin::default() }, future)
}

/// The origin of a copy. The copy of a request that has come back must not lead here again: with an upstream that does, requests
/// would double at each hop.
pub fn of_copy(request: &Request) -> Origin {
    let came = origin(request);
    let side = if came.is_proved { MOST } else { came.side };
    Origin { side, ..came }
}

/// How a side request is treated.
pub enum SideRequestAction {
    /// It does not come back, as far as is known.
    Free,
    /// It may come back: it carries a mark by which it is recognised then.
    Marked(Marked),
    /// It would loop: it counts as answered with 508.
    Round,
}

/// The field of a side request, and what proves it.
pub struct Marked {
    /// Of the field `CDN-Loop` (RFC 8586).
    pub value: Vec<u8>,
    /// To be kept until the answer has come.
    pub ticket: Option<Ticket>,
}

/// How a side request over this connection is treated. `there`: its values of `CDN-Loop`.
pub fn side_request_action<'a>(
    peer: SocketAddr,
    local: SocketAddr,
    there: impl Iterator<Item = &'a [u8]>,
) -> SideRequestAction {
    let made_for = current();
    let is_own_port = is_own_port(peer.port());
    // A connection to an address of this machine comes from that address.
    let (to, from) = (peer.ip().to_canonical(), local.ip().to_canonical());
    let is_own = is_own_port && (to.is_loopback() || to == from);
    if is_own && made_for.side >= MOST {
        leave_out(peer);
        return SideRequestAction::Round;
    }
    if !is_own_port && made_for.hops == 0 {
        return SideRequestAction::Free;
    }
    let next =
        Origin { hops: made_for.hops.saturating_add(1), side: made_for.side.saturating_add(1), ..made_for };
    // Others get no ticket: they could show it to their clients before it has come here.
    let ticket = is_own.then(|| Ticket::new(next));
    SideRequestAction::Marked(Marked { value: value(there, next, ticket.as_ref()), ticket })
}

#[cold]
fn leave_out(peer: SocketAddr) {
    LEFT_OUT.fetch_add(1, Relaxed);
    static LINES: Limiter = Limiter::new(1, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(
            Level::Error,
            format_args!(
                "a plugin's request to {peer}, this gateway itself, is not sent: the request it belongs to \
                 was itself made by a plugin, or has come back, so it would loop; {others} more since the \
                 previous line"
            ),
        );
    }
}

/// Side requests that were not made.
pub fn left_out() -> u64 {
    LEFT_OUT.load(Relaxed)
}
