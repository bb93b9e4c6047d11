//! The table of users, and who hears of its writes.

use std::sync::{
    OnceLock,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use redb::TableDefinition;

use super::copy::User;

/// Name; the record.
pub(super) const USERS: TableDefinition<&str, &[u8]> = TableDefinition::new("users");

/// Tells who keeps the copy that users were written.
#[derive(Default)]
pub(super) struct UserWrites {
    count: AtomicU64,
    bell: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl UserWrites {
    /// What is called after each.
    pub(super) fn ring(&self, bell: impl Fn() + Send + Sync + 'static) {
        let _ = self.bell.set(Box::new(bell));
    }

    /// How many there were since the start.
    pub(super) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    pub(super) fn add(&self) {
        self.count.fetch_add(1, Relaxed);
        if let Some(bell) = self.bell.get() {
            bell();
        }
    }
}

/// Adds users to a store that is being made.
pub(super) fn fill(transaction: &redb::WriteTransaction, users: &[User]) -> Result<(), redb::Error> {
    let mut table = transaction.open_table(USERS)?;
    for (name, record) in users {
        table.insert(name.as_str(), record.as_slice())?;
    }
    Ok(())
}
