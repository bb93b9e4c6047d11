//! Writes, in the name of the client.

use tidegate_store::{Author, BoxFuture, Operation, StoreError, Write, Written};

use crate::{AdminApi, message::Request};

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
    api.write(Write { operations, at: None, author: author(request, None) })
}

/// Of a path, in entries.
const LONGEST_REQUEST: usize = 200;

/// The sender of this request.
pub(super) fn author(request: &Request, note: Option<String>) -> Author {
    let path: String = request.path.chars().take(LONGEST_REQUEST).collect();
    let caller = request.caller.as_ref();
    Author {
        name: caller.map(|caller| caller.name.clone()),
        role: caller.map(|caller| caller.role.name().to_owned()),
        address: Some(request.peer.to_canonical()),
        request: format!("{} {path}", request.method),
        note,
    }
}
