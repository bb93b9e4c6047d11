//! Asks the processor for memory that is read soon, so that it comes while other work is done.
//!
//! With 50,000 routes, what belongs to the one of a request is in no cache: each line of it takes some 100 ns.

use std::sync::Arc;

use tidegate_plugin_api::{Route, Snapshot, route::RouteUpstream};

const LINE: usize = 64;

/// The counts of an `Arc` stand before its value.
const COUNTS: usize = 2 * size_of::<usize>();

/// What requests read of them: both have it in front.
const ROUTE: usize = 64;
const UPSTREAM: usize = 256;

/// The route that the router has found.
#[inline]
pub(crate) fn route(snapshot: &Snapshot, number: u32) {
    if let Some(route) = snapshot.routes.get(number as usize) {
        start(Arc::as_ptr(route).cast(), ROUTE);
    }
}

/// The upstream that the route's requests usually go to.
#[inline]
pub(crate) fn upstream(route: &Route) {
    if let RouteUpstream::Some(upstream) = &route.upstream {
        start(Arc::as_ptr(upstream).cast(), UPSTREAM);
    }
}

#[inline]
fn start(value: *const u8, bytes: usize) {
    let first = value.wrapping_sub(COUNTS);
    for offset in (0..bytes + COUNTS).step_by(LINE) {
        line(first.wrapping_add(offset));
    }
}

#[cfg(target_arch = "x86_64")]
#[inline]
fn line(at: *const u8) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing that the program sees, and an address that is not mapped makes no fault.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
}

#[cfg(not(target_arch = "x86_64"))]
#[inline]
fn line(_: *const u8) {}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use tidegate_plugin_api::UpstreamHandle;

    use super::*;

    /// There may be 50,000 of each; a field more, or one in the wrong place, shows up here.
    #[test]
    fn routes_and_upstreams_are_small_and_begin_with_what_requests_read() {
        assert!(offset_of!(Route, id) + COUNTS <= ROUTE);
        assert!(offset_of!(UpstreamHandle, name) + COUNTS <= UPSTREAM);
        // With their counts these fit into classes of the allocator: 160 and 256 bytes.
        assert!(size_of::<Route>() + COUNTS <= 160, "route: {} bytes", size_of::<Route>());
        let upstream = size_of::<UpstreamHandle>();
        assert!(upstream + COUNTS <= 256, "upstream: {upstream} bytes");
    }
}
