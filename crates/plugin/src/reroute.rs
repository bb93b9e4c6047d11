//! Which route a request would have had with another path. The router's view of a request is that of the proxy, which says here
//! how to ask it.

use std::sync::OnceLock;

use crate::Request;

/// The position of the route in the snapshot.
type Find = fn(&Request, &[u8]) -> Option<u32>;

static FIND: OnceLock<Find> = OnceLock::new();

pub fn install(find: Find) {
    let _ = FIND.set(find);
}

/// Whether a path belongs to another route than the request has, or to none.
pub fn leads_elsewhere(request: &Request, path: &[u8]) -> bool {
    let Some(find) = FIND.get() else { return true };
    let found = find(request, path).and_then(|number| request.snapshot.routes.get(number as usize));
    match (found, &request.route) {
        (Some(found), Some(own)) => found.id != own.id,
        _ => true,
    }
}
