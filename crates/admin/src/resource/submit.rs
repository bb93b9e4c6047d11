//! Writes, in the name of the client.

use tidegate_store::{Author, BoxFuture, Operation, StoreError, Write, Written};

use crate::{AdminApi, Role, message::Request};

/// The `ttl` argument, in whole seconds of at least one.
pub(super) fn ttl(request: &Request) -> Option<u64> {
    let seconds: f64 = request.argument("ttl")?.trim().parse().ok()?;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped before")]
    Some(seconds.clamp(1.0, 1e9) as u64)
}

/// Writes in the name of the client.
pub(super) fn submit<'a>(
    api: &'a AdminApi,
    request: &Request,
    operations: Vec<Operation>,
) -> BoxFuture<'a, Result<Written, StoreError>> {
    api.write(Write { operations, at: None, author: author(api, request, None) })
}

/// Of a path, in entries.
const LONGEST_REQUEST: usize = 200;

/// The sender of this request.
pub(super) fn author(api: &AdminApi, request: &Request, note: Option<String>) -> Author {
    let key = api.key_of(request);
    let path: String = request.path.chars().take(LONGEST_REQUEST).collect();
    let role = |role: Role| if role == Role::Admin { "admin" } else { "viewer" };
    Author {
        name: key.map(|key| key.name.clone()),
        role: key.map(|key| role(key.role).to_owned()),
        address: Some(request.peer.to_canonical()),
        request: format!("{} {path}", request.method),
        note,
    }
}
