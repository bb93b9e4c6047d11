//! Reading the history back.

use std::{collections::BTreeMap, sync::Arc};

use redb::{ReadTransaction, ReadableDatabase, ReadableTable, ReadableTableMetadata};
use tidegate_model::Kind;

use super::{
    checkpoints,
    database::{Database, damaged},
    faults::unavailable,
    rows::{CHANGES, ENTRIES, OBJECTS, OLDEST},
    tables::META,
};
use crate::{
    Author, History,
    error::StoreError,
    history::{Checkpoint, Difference, Entry, HistoryError, Page, Past, Point, Query, Version},
};

impl Database {
    pub(super) fn failed(&self, error: impl Into<redb::Error>) -> HistoryError {
        if self.is_released() {
            return StoreError::HandedOver.into();
        }
        let (path, error) = (self.path.display(), error.into());
        // The writer opens it again, before its next write at the latest.
        if self.is_failing() || matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo) {
            self.fail();
            return unavailable(format!("database {path} has failed ({error}) and is being opened again"))
                .into();
        }
        unavailable(format!("cannot read database {path}: {error}")).into()
    }

    pub(super) fn unreadable(&self, what: &str) -> HistoryError {
        damaged(&self.path, what).into()
    }

    fn meta(&self, transaction: &ReadTransaction, name: &str) -> Result<u64, redb::Error> {
        Ok(transaction.open_table(META)?.get(name)?.map_or(0, |number| number.value()))
    }

    fn try_entries(&self, query: &Query) -> Result<Page, redb::Error> {
        let redb = self.opened()?;
        let transaction = redb.begin_read()?;
        let oldest = self.meta(&transaction, OLDEST)?;
        let entries = transaction.open_table(ENTRIES)?;
        let first = entries.first()?.map_or(u64::MAX, |(revision, _)| revision.value());
        let from = first.max(query.since.saturating_add(1));
        let (mut page, mut total) = (Vec::new(), 0);
        match &query.object {
            None => {
                let skipped = if query.since < first { entries.len()? } else { 0 };
                for row in entries.range(from..)?.rev() {
                    let (revision, bytes) = row?;
                    if total >= query.skip && page.len() < query.take {
                        page.extend(super::rows::entry(revision.value(), bytes.value()));
                    }
                    total += 1;
                    // All of them are counted already.
                    if skipped > 0 && page.len() >= query.take {
                        total = usize::try_from(skipped).unwrap_or(usize::MAX);
                        break;
                    }
                }
            }
            Some((kind, id)) => {
                let objects = transaction.open_table(OBJECTS)?;
                let (begin, end) =
                    (super::rows::object_key(*kind, id, from), super::rows::object_key(*kind, id, u64::MAX));
                for row in objects.range(begin.as_slice()..=end.as_slice())?.rev() {
                    let (key, _) = row?;
                    // Ids that begin as this one does and happen to lie in between are longer.
                    let Some(revision) = key.value().last_chunk().filter(|_| key.value().len() == end.len())
                    else {
                        continue;
                    };
                    let revision = u64::from_be_bytes(*revision);
                    if total >= query.skip
                        && page.len() < query.take
                        && let Some(bytes) = entries.get(revision)?
                    {
                        page.extend(super::rows::entry(revision, bytes.value()));
                    }
                    total += 1;
                }
            }
        }
        Ok(Page { entries: page, total, oldest })
    }

    fn try_entry(
        &self,
        revision: u64,
        skip: usize,
        take: usize,
    ) -> Result<Option<(Entry, Vec<Difference>)>, redb::Error> {
        let redb = self.opened()?;
        let transaction = redb.begin_read()?;
        let entries = transaction.open_table(ENTRIES)?;
        let Some(bytes) = entries.get(revision)? else { return Ok(None) };
        let Some(entry) = super::rows::entry(revision, bytes.value()) else { return Ok(None) };
        let changes = transaction.open_table(CHANGES)?;
        let begin = u32::try_from(skip).unwrap_or(u32::MAX);
        let mut differences = Vec::new();
        for row in changes.range((revision, begin)..=(revision, u32::MAX))?.take(take) {
            differences.extend(self.change(row?.1.value()));
        }
        Ok(Some((entry, differences)))
    }

    /// Every object that was changed since, as it was before the first of these changes.
    fn undone(
        &self,
        transaction: &ReadTransaction,
        wanted: u64,
        base: u64,
    ) -> Result<BTreeMap<(Kind, Arc<str>), Option<Version>>, HistoryError> {
        let read = |error| self.failed(error);
        let oldest = self.meta(transaction, OLDEST).map_err(read)?;
        if wanted > base {
            return Err(HistoryError::Future { wanted, current: base });
        }
        if wanted < oldest {
            return Err(HistoryError::Trimmed { wanted, oldest });
        }
        let changes = transaction.open_table(CHANGES).map_err(|error| self.failed(error))?;
        let rows = changes.range((wanted.saturating_add(1), 0)..).map_err(|error| self.failed(error))?;
        let mut objects = BTreeMap::new();
        for row in rows {
            let (key, bytes) = row.map_err(|error| self.failed(error))?;
            let Some(change) = self.change(bytes.value()) else {
                let revision = key.value().0;
                return Err(self.unreadable(&format!("the history of revision {revision} cannot be read")));
            };
            if change.left_out.is_some() {
                return Err(HistoryError::Trimmed { wanted, oldest: key.value().0 });
            }
            objects.entry((change.kind, change.id)).or_insert(change.before);
        }
        Ok(objects)
    }
}

impl History for Database {
    fn entries(&self, query: &Query) -> Result<Page, HistoryError> {
        self.try_entries(query).map_err(|error| self.failed(error))
    }

    fn entry(
        &self,
        revision: u64,
        skip: usize,
        take: usize,
    ) -> Result<Option<(Entry, Vec<Difference>)>, HistoryError> {
        self.try_entry(revision, skip, take).map_err(|error| self.failed(error))
    }

    fn past(&self, point: &Point) -> Result<Past, HistoryError> {
        let redb = self.opened().map_err(|error| self.failed(error))?;
        let transaction = redb.begin_read().map_err(|error| self.failed(error))?;
        let base = self.meta(&transaction, "revision").map_err(|error| self.failed(error))?;
        let (revision, objects) = match point {
            Point::Revision(revision) => (*revision, self.undone(&transaction, *revision, base)?),
            Point::Checkpoint(name) => checkpoints::restored(self, &transaction, name)?,
        };
        let objects = objects.into_iter().map(|((kind, id), version)| (kind, id, version)).collect();
        Ok(Past { base, revision, objects })
    }

    fn checkpoints(&self) -> Result<Vec<Checkpoint>, HistoryError> {
        checkpoints::list(self)
    }

    fn put_checkpoint(&self, name: &str, author: &Author) -> Result<(Checkpoint, bool), HistoryError> {
        checkpoints::put(self, name, author)
    }

    fn delete_checkpoint(&self, name: &str) -> Result<bool, HistoryError> {
        checkpoints::delete(self, name).map_err(|error| self.failed(error))
    }
}
