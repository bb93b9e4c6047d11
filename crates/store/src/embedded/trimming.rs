//! History that goes: what exceeds its number, its age or its bytes, the oldest first.
//!
//! Rows of changes may outlive their write's for a while, because trimming takes small steps. Bytes are exact after
//! each write nevertheless: one removes as many as it adds, and twice as many while there are too many.

use std::panic::{AssertUnwindSafe, catch_unwind};

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, Table, WriteTransaction};

use super::{
    database::Database,
    rows::{CHANGES, ENTRIES, OBJECTS, OLDEST, object_key},
    tables::META,
};

/// What history takes on the disk, and the revision at which that was counted: programs that do not count leave both
/// alone.
const BYTES: &str = "history_bytes";
const COUNTED_AT: &str = "history_counted_at";

/// Rows that a write may remove beside those it makes room for.
const STEP_OF_A_WRITE: usize = 16;
const STEP: usize = 512;

/// Of a row, for its keys and its place.
const ROW: u64 = 128;
/// What is longer than half a page has pages of its own, twice as many each time.
const HALF_A_PAGE: u64 = 2048;

/// What a row with so many bytes takes.
pub(super) fn taken(bytes: usize) -> u64 {
    let bytes = ROW.saturating_add(bytes as u64);
    if bytes > HALF_A_PAGE { bytes.checked_next_power_of_two().unwrap_or(bytes) } else { bytes }
}

/// Rows that a write adds.
#[derive(Clone, Copy, Default)]
pub(super) struct Added {
    rows: usize,
    bytes: u64,
}

impl Added {
    pub(super) fn row(&mut self, bytes: usize) {
        self.rows += 1;
        self.bytes = self.bytes.saturating_add(taken(bytes));
    }
}

pub(super) fn is_counted(
    meta: &impl ReadableTable<&'static str, u64>,
    revision: u64,
) -> Result<bool, redb::Error> {
    Ok(meta.get(COUNTED_AT)?.is_some_and(|at| at.value() == revision))
}

/// Counts what is there: once, after a program that does not.
pub(super) fn count(transaction: &WriteTransaction, revision: u64) -> Result<(), redb::Error> {
    let mut bytes = 0_u64;
    for row in transaction.open_table(ENTRIES)?.iter()? {
        bytes = bytes.saturating_add(taken(row?.1.value().len()));
    }
    for row in transaction.open_table(CHANGES)?.iter()? {
        bytes = bytes.saturating_add(taken(row?.1.value().len()));
    }
    let mut meta = transaction.open_table(META)?;
    meta.insert(BYTES, bytes)?;
    meta.insert(COUNTED_AT, revision)?;
    Ok(())
}

impl Database {
    /// Trims a bounded number of rows; whether there are more. Damage is left for the next write to report.
    pub(crate) fn trim_step(&self, now_ms: u64) -> bool {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.try_trim_step(now_ms)));
        match outcome {
            Ok(Ok(more)) => more,
            Ok(Err(_)) | Err(_) => {
                self.fail();
                false
            }
        }
    }

    fn try_trim_step(&self, now_ms: u64) -> Result<bool, redb::Error> {
        let redb = self.opened()?;
        let needed = {
            let transaction = redb.begin_read()?;
            let entries = transaction.open_table(ENTRIES)?;
            let first = entries
                .first()?
                .map(|(revision, bytes)| (revision.value(), super::rows::time(bytes.value())));
            let changes = transaction.open_table(CHANGES)?;
            let orphan = changes.first()?.map(|(key, _)| key.value().0);
            let bytes = transaction.open_table(META)?.get(BYTES)?.map_or(0, |bytes| bytes.value());
            first.is_some_and(|(_, at)| self.exceeds(entries.len().unwrap_or(0), at, now_ms))
                || orphan.is_some_and(|orphan| first.is_none_or(|(first, _)| orphan < first))
                || (first.is_some() && bytes > self.retention.max_bytes)
        };
        if !needed {
            return Ok(false);
        }
        let transaction = redb.begin_write()?;
        let more = self.trim(&transaction, now_ms, Budget { rows: STEP, bytes: 0 })?;
        self.finish(transaction)?;
        Ok(more)
    }

    /// Makes room for what a write has added to its transaction.
    pub(super) fn trim_for(
        &self,
        transaction: &WriteTransaction,
        revision: u64,
        now_ms: u64,
        added: Added,
    ) -> Result<(), redb::Error> {
        {
            let mut meta = transaction.open_table(META)?;
            let bytes = meta.get(BYTES)?.map_or(0, |bytes| bytes.value());
            meta.insert(BYTES, bytes.saturating_add(added.bytes))?;
            meta.insert(COUNTED_AT, revision)?;
        }
        let rows = STEP_OF_A_WRITE + 2 * added.rows;
        self.trim(transaction, now_ms, Budget { rows, bytes: added.bytes.saturating_mul(2) })?;
        Ok(())
    }

    fn exceeds(&self, count: u64, oldest_ms: u64, now_ms: u64) -> bool {
        let age = now_ms.saturating_sub(oldest_ms);
        count > self.retention.max_entries || u128::from(age) > self.retention.max_age.as_millis()
    }

    /// Entries go first: a change without its entry belongs to no write and goes when there is time. Whether the
    /// budget was used up.
    fn trim(&self, transaction: &WriteTransaction, now_ms: u64, budget: Budget) -> Result<bool, redb::Error> {
        let mut meta = transaction.open_table(META)?;
        let bytes = meta.get(BYTES)?.map_or(0, |bytes| bytes.value());
        let mut history = Tables {
            entries: transaction.open_table(ENTRIES)?,
            changes: transaction.open_table(CHANGES)?,
            objects: transaction.open_table(OBJECTS)?,
            max_bytes: self.retention.max_bytes,
            bytes,
            budget,
            trimmed: None,
        };
        while history.budget.rows > 0
            && let Some((_, at)) = history.oldest()?
            && self.exceeds(history.entries.len()?, at, now_ms)
        {
            history.remove_entry()?;
        }
        let mut more = history.remove_orphans()?;
        while !more && history.is_too_large() && history.oldest()?.is_some() {
            history.remove_entry()?;
            more = history.remove_orphans()?;
        }
        let Tables { bytes: left, trimmed, changes, entries, .. } = history;
        // Whatever the count was.
        let nothing = changes.is_empty()? && entries.is_empty()?;
        meta.insert(BYTES, if nothing { 0 } else { left })?;
        if let Some(trimmed) = trimmed {
            let oldest = meta.get(OLDEST)?.map_or(0, |oldest| oldest.value());
            meta.insert(OLDEST, oldest.max(trimmed))?;
        }
        Ok(more)
    }
}

/// What may be removed at once: so many rows, and more of them for so many bytes while there are too many.
struct Budget {
    rows: usize,
    bytes: u64,
}

struct Tables<'t> {
    entries: Table<'t, u64, &'static [u8]>,
    changes: Table<'t, (u64, u32), &'static [u8]>,
    objects: Table<'t, &'static [u8], u32>,
    max_bytes: u64,
    bytes: u64,
    budget: Budget,
    trimmed: Option<u64>,
}

impl Tables<'_> {
    fn is_too_large(&self) -> bool {
        self.bytes > self.max_bytes
    }

    /// Revision and time of the oldest write.
    fn oldest(&self) -> Result<Option<(u64, u64)>, redb::Error> {
        Ok(self
            .entries
            .first()?
            .map(|(revision, bytes)| (revision.value(), super::rows::time(bytes.value()))))
    }

    fn removed(&mut self, bytes: usize) {
        let bytes = taken(bytes);
        self.bytes = self.bytes.saturating_sub(bytes);
        self.budget.bytes = self.budget.bytes.saturating_sub(bytes);
        self.budget.rows = self.budget.rows.saturating_sub(1);
    }

    fn remove_entry(&mut self) -> Result<(), redb::Error> {
        let removed = self.entries.pop_first()?;
        if let Some((revision, bytes)) = removed.map(|(revision, row)| (revision.value(), row.value().len()))
        {
            self.trimmed = Some(revision);
            self.removed(bytes);
        }
        Ok(())
    }

    /// Changes without an entry. Whether the budget ended first.
    fn remove_orphans(&mut self) -> Result<bool, redb::Error> {
        let oldest = self.oldest()?.map_or(u64::MAX, |(revision, _)| revision);
        loop {
            let Some(revision) = self.changes.first()?.map(|(key, _)| key.value().0) else {
                return Ok(false);
            };
            if revision >= oldest {
                return Ok(false);
            }
            if self.budget.rows == 0 && (self.budget.bytes == 0 || !self.is_too_large()) {
                return Ok(true);
            }
            let removed = self.changes.pop_first()?;
            let Some((object, bytes)) =
                removed.map(|(_, row)| (super::rows::named(row.value()), row.value().len()))
            else {
                return Ok(false);
            };
            if let Some((kind, id)) = object {
                self.objects.remove(object_key(kind, &id, revision).as_slice())?;
            }
            self.removed(bytes);
        }
    }
}
