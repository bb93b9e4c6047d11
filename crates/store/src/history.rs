//! What was changed, by whom, and how to get back: for providers that keep it.
//!
//! All of [`History`] reads or writes the disk and blocks: call it from a thread that may.

use std::{net::IpAddr, sync::Arc, time::Duration};

use serde_json::Value;
use tidegate_model::Kind;

use crate::error::StoreError;

/// Named states that are kept at most; each is a whole configuration.
pub const MAX_CHECKPOINTS: usize = 100;

/// What the checkpoints take together: so many times [`Retention::max_bytes`].
pub const CHECKPOINT_SHARE: u64 = 4;

/// How much history is kept. What is above any of these is trimmed, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// Acknowledged writes; 0: no history.
    pub max_entries: u64,
    /// Of the oldest write.
    pub max_age: Duration,
    /// What they take on the disk.
    pub max_bytes: u64,
}

impl Default for Retention {
    fn default() -> Self {
        Self { max_entries: 10_000, max_age: Duration::from_secs(30 * 86_400), max_bytes: 256 << 20 }
    }
}

/// Who asked for a write, and how.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Author {
    /// Name and role of the key that was used; `None` where none is needed.
    pub name: Option<String>,
    /// `admin` or `viewer`.
    pub role: Option<String>,
    /// Of the client of the Admin API.
    pub address: Option<IpAddr>,
    /// Method and path.
    pub request: String,
    /// What a request that changes many objects was for.
    pub note: Option<String>,
}

/// One acknowledged write.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// That the write made.
    pub revision: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// Who asked for it.
    pub author: Author,
    /// How many objects it changed.
    pub changes: u64,
    /// The first of them.
    pub first: Vec<(Kind, Arc<str>, Action)>,
    /// Its values before and after are not kept: alone they would take so many bytes, more than the history may.
    pub left_out_bytes: Option<u64>,
}

/// What a write did with an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// There was none of that id.
    Create,
    /// There was one with another value.
    Update,
    /// There is none any more.
    Delete,
}

impl Action {
    /// As the Admin API writes it.
    pub fn name(self) -> &'static str {
        match self {
            Action::Create => "create",
            Action::Update => "update",
            Action::Delete => "delete",
        }
    }
}

/// An object before and after a write.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// Of the object.
    pub kind: Kind,
    /// Of the object.
    pub id: Arc<str>,
    /// `None`: it did not exist, or is left out.
    pub before: Option<Version>,
    /// `None`: it was deleted, or is left out.
    pub after: Option<Version>,
    /// What was done, where neither value is kept.
    pub left_out: Option<Action>,
}

/// The value of an object at some time.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// As the Admin API would answer it, secrets decrypted.
    pub value: Arc<Value>,
    /// Milliseconds since 1970, of objects with a time to live.
    pub expires_at_ms: Option<u64>,
    /// Why its secrets cannot be decrypted; the value is as it lies on the disk.
    pub sealed: Option<String>,
}

/// Which entries: newest first.
#[derive(Clone, Debug, Default)]
pub struct Query {
    /// Only writes that changed this object.
    pub object: Option<(Kind, Arc<str>)>,
    /// Only writes after this revision.
    pub since: u64,
    /// Entries to leave out at the beginning.
    pub skip: usize,
    /// The most entries.
    pub take: usize,
}

/// A part of the history.
#[derive(Clone, Debug)]
pub struct Page {
    /// Newest first.
    pub entries: Vec<Entry>,
    /// Entries that the query matches.
    pub total: usize,
    /// The oldest revision that the history leads back to.
    pub oldest: u64,
}

/// A named state: the whole configuration as it was, so that it does not depend on what history is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// Chosen by the author; unique.
    pub name: String,
    /// Of the state.
    pub revision: u64,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: u64,
    /// Who asked for it.
    pub author: Author,
    /// How many the state has.
    pub objects: u64,
    /// What it takes on the disk.
    pub bytes: u64,
}

/// A state to go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    /// That the history still leads back to.
    Revision(u64),
    /// By its name.
    Checkpoint(String),
}

/// What to change at `base` for the configuration to be as it was; may hold objects that are so already.
#[derive(Clone, Debug)]
pub struct Past {
    /// The current revision.
    pub base: u64,
    /// The revision that it was at.
    pub revision: u64,
    /// Kind, id and the value then; `None`: there was none.
    pub objects: Vec<(Kind, Arc<str>, Option<Version>)>,
}

/// Why the history has no answer.
#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    /// Trimmed by [`Retention`].
    #[error("revision {wanted} is not in the history, which begins at revision {oldest}")]
    Trimmed {
        /// Asked for.
        wanted: u64,
        /// The first that can be had.
        oldest: u64,
    },
    /// Later than the newest write.
    #[error("revision {wanted} does not exist yet; the configuration is at {current}")]
    Future {
        /// Asked for.
        wanted: u64,
        /// The newest.
        current: u64,
    },
    /// None of that name.
    #[error("checkpoint {0} not found")]
    NoCheckpoint(String),
    /// See [`MAX_CHECKPOINTS`].
    #[error("the limit of {MAX_CHECKPOINTS} checkpoints is reached; delete one first")]
    TooManyCheckpoints,
    #[error(
        "the checkpoint takes {bytes} bytes, and with the {taken} of the others that is more than {limit}; delete others, or \
         raise history.max_bytes, of which checkpoints may take {CHECKPOINT_SHARE} times as much"
    )]
    /// See [`CHECKPOINT_SHARE`].
    LargeCheckpoints {
        /// That the new one takes.
        bytes: u64,
        /// That the others take.
        taken: u64,
        /// For all of them.
        limit: u64,
    },
    /// The store itself failed.
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Who wrote what, and the states to go back to.
pub trait History: Send + Sync {
    /// Newest first.
    fn entries(&self, query: &Query) -> Result<Page, HistoryError>;
    /// One entry and `take` of its differences from `skip` on.
    fn entry(
        &self,
        revision: u64,
        skip: usize,
        take: usize,
    ) -> Result<Option<(Entry, Vec<Difference>)>, HistoryError>;
    /// What leads from the current state to that one.
    fn past(&self, point: &Point) -> Result<Past, HistoryError>;
    /// By name.
    fn checkpoints(&self) -> Result<Vec<Checkpoint>, HistoryError>;
    /// Keeps the newest durable state under this name; whether the name was in use, which then means this state.
    fn put_checkpoint(&self, name: &str, author: &Author) -> Result<(Checkpoint, bool), HistoryError>;
    /// `false`: there was none of this name.
    fn delete_checkpoint(&self, name: &str) -> Result<bool, HistoryError>;
}
