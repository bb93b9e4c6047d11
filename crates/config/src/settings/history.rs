//! `history`: how much of the embedded database's past is kept.

use std::time::Duration;

use super::Reader;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// Acknowledged writes; 0: none.
    pub max_entries: u64,
    pub max_age: Duration,
    /// On the disk.
    pub max_bytes: u64,
}

impl History {
    pub fn read(reader: &Reader) -> Self {
        let month = Duration::from_secs(30 * 86_400);
        Self {
            max_entries: reader.unsigned("history.max_entries").unwrap_or(10_000),
            max_age: reader.duration("history.max_age").unwrap_or(month),
            max_bytes: reader.size("history.max_bytes").unwrap_or(256 << 20),
        }
    }
}
