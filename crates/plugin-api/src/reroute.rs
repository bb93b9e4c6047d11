//! Which route a request would match with another path. Only `proxy` knows how to present a request to the router, so it
//! installs the lookup.

use std::sync::OnceLock;

use crate::Request;

/// The position of the route in the snapshot.
type Find = fn(&Request, &[u8]) -> Option<u32>;

static FIND: OnceLock<Find> = OnceLock::new();

/// Called once, before the first request; later calls change nothing.
pub fn install(find: Find) {
    let _ = FIND.set(find);
}

/// Whether the path matches a route other than the request's, or none.
pub fn leads_elsewhere(request: &Request, path: &[u8]) -> bool {
    let Some(find) = FIND.get() else { return true };
    let found = find(request, path).and_then(|number| request.snapshot.routes.get(number as usize));
    match (found, &request.route) {
        (Some(found), Some(own)) => found.id != own.id,
        _ => true,
    }
}
