//! Who asks.

use crate::role::Role;

/// Who sent a request that was let in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Of the key or of the user.
    pub name: String,
    pub role: Role,
    /// Whether it is a user of the store; else a key of config.yaml.
    pub is_user: bool,
    /// Whether it is shown who the consumers of requests are.
    pub sees_consumers: bool,
    /// Of a request with a session in place of a key.
    pub session: Option<SessionId>,
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
