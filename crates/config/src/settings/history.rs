//! `history`: how much of the embedded database's past is kept.

use std::time::Duration;

use super::Reader;

/// How much of the past is kept. Checkpoints do not count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Acknowledged writes; 0: none.
    pub max_entries: u64,
    /// How long an entry is kept.
    pub max_age: Duration,
    /// On the disk.
    pub max_bytes: u64,
}

impl History {
    /// Section `history`.
    pub fn read(reader: &Reader) -> Self {
        let month = Duration::from_secs(30 * 86_400);
        Self {
            max_entries: reader.unsigned("history.max_entries").unwrap_or(10_000),
            max_age: reader.duration("history.max_age").unwrap_or(month),
            max_bytes: reader.size("history.max_bytes").unwrap_or(256 << 20),
        }
    }
}
