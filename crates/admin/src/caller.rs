//! Who asks.

use std::sync::Arc;

use crate::{permission::scope::Scope, role::Role};

/// Who sent a request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Of the key, the user or the person.
    pub name: String,
    pub role: Role,
    pub origin: Origin,
    /// Whether it is shown who the consumers of requests are.
    pub sees_consumers: bool,
    /// The objects that it is for; `None`: all.
    pub scope: Option<Arc<Scope>>,
    /// Of a request with a session in place of a key.
    pub session: Option<SessionId>,
}

/// Who knows the caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// `deployment.admin.admin_key`
    Key,
    /// The users of the store.
    User,
    /// The identity provider of `deployment.admin.oidc`.
    Provider,
}

/// The digest of a session's token: the token itself is nowhere kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SessionId(pub(crate) [u8; 32]);

impl Caller {
    /// Whether secrets are hidden from it.
    pub(crate) fn is_masked(&self) -> bool {
        self.role != Role::Admin
    }
}
