//! The file of a database, written page by page.
//!
//! redb writes the pages of a commit one after the other, syncs them, and frees others: a millisecond and more in one piece. Between pages the
//! writer gives way.

use std::{fs::File, io, ops::Bound};

use redb::{BackendError, DatabaseError, StorageBackend, backends::FileBackend};
use tidegate_telemetry::background::give_way;

#[derive(Debug)]
pub(super) struct InTurns(FileBackend);

impl InTurns {
    pub(super) fn new(file: File) -> Result<InTurns, DatabaseError> {
        FileBackend::new(file).map(InTurns)
    }
}

type Edge = Bound<u64>;

impl StorageBackend for InTurns {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        give_way();
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        give_way();
        self.0.sync_data()?;
        give_way();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        give_way();
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.0.try_lock_range(start, end)
    }

    fn try_lock_shared_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(start, end)
    }

    fn lock_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.0.lock_range(start, end)
    }

    fn lock_shared_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.0.lock_shared_range(start, end)
    }

    fn unlock_range(&self, start: Edge, end: Edge) -> Result<(), BackendError> {
        self.0.unlock_range(start, end)
    }

    fn query_lock_range(&self, start: Edge, end: Edge) -> Result<bool, BackendError> {
        self.0.query_lock_range(start, end)
    }
}
