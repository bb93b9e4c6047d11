//! The embedded database: one file, no server, durable before acknowledged.
//!
//! Everything is held in memory; the file is read once, at the start. Writes go through one thread, so their
//! order is their revision. The thread takes all writes that are waiting, commits them with one fsync, makes
//! them visible and answers them: under load many writes share an fsync, a write that comes alone does not wait.

mod checkpoints;
mod copier;
pub mod copy;
mod creation;
mod database;
mod draft;
mod entries;
mod expiries;
mod faults;
mod files;
mod holder;
mod in_turns;
mod keys;
mod last_good;
mod marker;
mod opening;
mod progress;
mod record;
pub mod repair;
mod retrieval;
mod rows;
mod sealing;
mod steps;
mod tables;
mod trimming;
mod user_table;
mod users;
mod writer;

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tidegate_model::Kind;
use tokio::sync::{oneshot, watch};

use self::{copier::Copier, database::Database, expiries::Expiries, faults::stopped, writer::Writer};
pub use self::{
    holder::{holder, holds_removed},
    last_good::{Lag, LastGood},
    sealing::Hooks,
};
use crate::{
    BoxFuture, Changes, History, Operation, State, Store, Users, Write, Written, error::StoreError,
    history::Retention, live::Live,
};

/// The database on this machine's disk (redb), with its objects in memory as well.
pub struct Embedded {
    live: Arc<Live>,
    /// For the history, which is not in memory. Let go before the threads, the last of which closes the file: closing a
    /// damaged one may panic.
    database: Arc<Database>,
    writer: Writer,
    expiries: Arc<Mutex<Expiries>>,
    /// Let go after the writer, so that the last copy has all that was written.
    copier: Copier,
    is_new: bool,
    warnings: Vec<String>,
}

/// The store, or what is served while it is damaged.
pub enum Opened {
    /// Nothing is wrong with it.
    Store(Embedded),
    /// A copy, read-only.
    LastGood(LastGood),
}

impl Embedded {
    /// Opens the database at `path`, or creates it. The error names the path and what to do.
    pub fn open(path: &Path, hooks: Hooks) -> Result<Self, StoreError> {
        Self::open_with(path, hooks, Retention::default())
    }

    /// Whether `open` would make a new database. The error is the one it would end with: a database that is lost.
    pub fn would_be_new(path: &Path) -> Result<bool, StoreError> {
        let place = creation::inspect_path(path)?;
        Ok(matches!(place, creation::StoreFile::New))
    }

    /// As [`Embedded::open`], keeping so much history.
    pub fn open_with(path: &Path, hooks: Hooks, retention: Retention) -> Result<Self, StoreError> {
        let (database, loaded) = Database::open(path, hooks, retention)?;
        let database = Arc::new(database);
        let live = Arc::new(Live::new(loaded.state));
        let expiries = Arc::new(Mutex::new(Expiries::new(loaded.expiries)));
        let copier = Copier::default();
        let bell = copier.bell();
        database.user_writes.ring(move || bell.ring());
        let writer = Writer::start(database.clone(), live.clone(), expiries.clone(), copier.bell())?;
        let (is_new, warnings) = (loaded.is_new, loaded.warnings);
        Ok(Self { live, database, writer, expiries, copier, is_new, warnings })
    }

    /// Keeps a copy of the last good configuration beside the file from now on.
    pub fn keep_copy(&self) -> Result<(), StoreError> {
        self.copier.begin(self.database.clone(), self.live.clone(), self.expiries.clone())
    }

    /// Where the copy lies.
    pub fn copy_place(&self) -> PathBuf {
        self::files::place(self.path())
    }

    /// Waits until the copy holds everything that has been acknowledged. For callers without a runtime.
    pub fn copy_now(&self) -> Result<copy::Head, String> {
        self.copier.now()
    }

    /// The objects in use whose secrets `hooks` cannot decrypt as they lie in the file: kind, id and reason.
    pub fn undecryptable(&self, hooks: &Hooks) -> Result<Vec<(Kind, String, String)>, StoreError> {
        let in_use = |kind, id: &str| {
            self.live.read(|state| state.get(kind, id).is_some_and(|object| object.fault.is_none()))
        };
        let mut lost = self.database.undecryptable(hooks)?;
        lost.retain(|(kind, id, _)| in_use(*kind, id));
        Ok(lost)
    }

    /// A copy of everything that has been acknowledged, where the disk of the store has no room for it. For callers without a runtime.
    pub fn whole_copy(&self) -> Result<Vec<u8>, String> {
        self.copier.whole()
    }

    /// Before the process ends: the last copy, and a file that the next start does not have to repair. For callers without a
    /// runtime.
    pub fn close(&self) {
        // A failure has been logged; the store itself has everything.
        let _ = self.copy_now();
        if !self.database.is_failing() {
            let _ = self.release();
        }
    }

    /// As [`Embedded::open_with`]; where the store is damaged, the copy beside it, if that is allowed.
    pub fn open_or_last_good(
        path: &Path,
        hooks: impl Fn() -> Hooks,
        retention: Retention,
        even_behind: bool,
    ) -> Result<Opened, StoreError> {
        match Self::open_with(path, hooks(), retention) {
            Ok(store) => Ok(Opened::Store(store)),
            Err(StoreError::Damaged(problem)) => {
                LastGood::open(path, hooks(), &problem, even_behind).map(Opened::LastGood)
            }
            Err(error) => Err(error),
        }
    }

    /// Whether opening it made it.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// What an operator has to know of how it was found.
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Of the database's file.
    pub fn path(&self) -> &Path {
        &self.database.path
    }

    /// `write` for callers without a runtime.
    pub fn write_blocking(&self, operations: Vec<Operation>) -> Result<Written, StoreError> {
        let (reply, answer) = oneshot::channel();
        self.writer.send(operations.into(), reply)?;
        answer.blocking_recv().unwrap_or_else(|_| Err(stopped()))
    }

    /// Closes the file when everything sent so far is written, so that another process can open it. Reads
    /// continue; writes are refused with [`StoreError::HandedOver`]. For callers without a runtime.
    pub fn release(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.writer.release(reply)?;
        answer.blocking_recv().map_err(|_| stopped())?;
        self.copier.hold();
        Ok(())
    }

    /// Takes the file back, with what is in it now.
    pub fn resume(&self) -> Result<(), StoreError> {
        let (reply, answer) = oneshot::channel();
        self.writer.resume(reply)?;
        let resumed = answer.blocking_recv().unwrap_or_else(|_| Err(stopped()));
        self.copier.resume();
        resumed
    }
}

impl Store for Embedded {
    fn read(&self, read: &mut dyn FnMut(&State)) {
        self.live.read(|state| read(state));
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        let (reply, answer) = oneshot::channel();
        // Sent now, not when first polled: a caller that goes away does not undo its write.
        let sent = self.writer.send(write, reply);
        Box::pin(async move {
            sent?;
            answer.await.unwrap_or_else(|_| Err(stopped()))
        })
    }

    fn history(&self) -> Option<&dyn History> {
        Some(self.database.as_ref())
    }

    fn users(&self) -> Option<&dyn Users> {
        Some(self.database.as_ref())
    }

    fn changes_since(&self, revision: u64) -> Changes {
        self.live.changes_since(revision)
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.live.watch()
    }

    fn is_writable(&self) -> bool {
        true
    }
}
