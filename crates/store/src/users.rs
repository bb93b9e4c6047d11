//! The people who sign in: a collection of its own beside the configuration, which no export, rollback or import touches.
//!
//! All of [`Users`] reads or writes a disk or a network and blocks: call it from a thread that may.

use crate::error::StoreError;

/// Users that a store keeps at most.
pub const MAX_USERS: usize = 1000;

/// What a full collection answers.
pub(crate) const TOO_MANY: StoreError =
    StoreError::Unsupported("there are 1000 users already; delete one first");

/// Records by name. What is in a record is the matter of those who sign people in.
pub trait Users: Send + Sync {
    /// `None`: there is none of that name.
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError>;
    /// In the order of their names.
    fn list(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError>;
    /// Durable when it returns. Refused for a new one where there are [`MAX_USERS`].
    fn put(&self, name: &str, record: &[u8]) -> Result<(), StoreError>;
    /// Whether there was one.
    fn delete(&self, name: &str) -> Result<bool, StoreError>;
}
