//! Counts commits, so that the marker shows whether the newest one is there.

use std::io;

use redb::{ReadableDatabase, ReadableTable, ReadableTableMetadata, StorageError, Table, WriteTransaction};
use tidegate_model::random::fill_secret;

use super::{
    database::Database,
    marker::Progress,
    tables::{META, OBJECTS, REVISION_KEY},
};

/// Halves of a random number that identifies this store, and how many commits it has had. Programs that do not count
/// leave the number behind, never ahead.
const IDENTITY_KEYS: [&str; 2] = ["identity_high", "identity_low"];
const COMMIT_KEY: &str = "commits";

impl Database {
    /// Ends a transaction: counts it, makes it durable, and records it in the marker before the write is acknowledged.
    pub(super) fn finish(&self, transaction: WriteTransaction) -> Result<(), redb::Error> {
        let progress = {
            let mut meta = transaction.open_table(META)?;
            let number = |name: &str| -> Result<u64, redb::Error> {
                Ok(meta.get(name)?.map_or(0, |number| number.value()))
            };
            let progress = Progress {
                identity: identity(number(IDENTITY_KEYS[0])?, number(IDENTITY_KEYS[1])?),
                commit: number(COMMIT_KEY)? + 1,
                revision: number(REVISION_KEY)?,
                objects: transaction.open_table(OBJECTS)?.len()?,
            };
            meta.insert(COMMIT_KEY, progress.commit)?;
            progress
        };
        transaction.commit()?;
        self.marker.record(progress);
        Ok(())
    }

    /// How far the store was written; `None` for one that no program of today has had.
    pub(super) fn progress(&self, revision: u64, objects: u64) -> Result<Option<Progress>, redb::Error> {
        let redb = self.opened()?;
        let meta = redb.begin_read()?.open_table(META)?;
        let number = |name: &str| -> Result<Option<u64>, redb::Error> {
            Ok(meta.get(name)?.map(|number| number.value()))
        };
        let (Some(high), Some(low)) = (number(IDENTITY_KEYS[0])?, number(IDENTITY_KEYS[1])?) else {
            return Ok(None);
        };
        let commit = number(COMMIT_KEY)?.unwrap_or_default();
        Ok(Some(Progress { identity: identity(high, low), commit, revision, objects }))
    }

    /// Gives the store an identity.
    pub(super) fn name(&self) -> Result<Progress, redb::Error> {
        let progress =
            Progress { identity: random().map_err(redb::Error::Io)?, commit: 1, ..Progress::default() };
        let redb = self.opened()?;
        let transaction = redb.begin_write()?;
        set(&mut transaction.open_table(META)?, progress)?;
        transaction.commit()?;
        Ok(progress)
    }
}

/// A new identity.
pub(super) fn random() -> io::Result<u128> {
    let mut random = [0; 16];
    fill_secret(&mut random)?;
    Ok(u128::from_be_bytes(random))
}

/// Writes identity and number of commits.
pub(super) fn set(meta: &mut Table<'_, &'static str, u64>, progress: Progress) -> Result<(), StorageError> {
    let [high, low] = [(progress.identity >> 64) as u64, progress.identity as u64];
    meta.insert(IDENTITY_KEYS[0], high)?;
    meta.insert(IDENTITY_KEYS[1], low)?;
    meta.insert(COMMIT_KEY, progress.commit)?;
    Ok(())
}

fn identity(high: u64, low: u64) -> u128 {
    u128::from(high) << 64 | u128::from(low)
}
