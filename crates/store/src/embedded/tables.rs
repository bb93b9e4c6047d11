//! The tables of the database.

use redb::TableDefinition;

pub(super) const OBJECTS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("objects");

pub(super) const META: TableDefinition<&str, u64> = TableDefinition::new("meta");

pub(super) const FORMAT_KEY: &str = "format";

pub(super) const REVISION_KEY: &str = "revision";

/// How many objects there are, and at which revision they were counted: programs that do not count leave both alone.
pub(super) const COUNT_KEY: &str = "objects";

pub(super) const COUNTED_AT_KEY: &str = "objects_counted_at";

/// Raised when an older program could no longer read the file.
pub(super) const FORMAT: u64 = 1;
