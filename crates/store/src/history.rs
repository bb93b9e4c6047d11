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
    pub role: Option<String>,
    pub address: Option<IpAddr>,
    /// Method and path.
    pub request: String,
    /// What a request that changes many objects was for.
    pub note: Option<String>,
}

/// One acknowledged write.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub revision: u64,
    /// Milliseconds since 1970.
    pub time_ms: u64,
    pub author: Author,
    /// How many objects it changed.
    pub changes: u64,
    /// The first of them.
    pub first: Vec<(Kind, Arc<str>, Action)>,
    /// Its values before and after are not kept: alone they would take so many bytes, more than the history may.
    pub left_out_bytes: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Create,
    Update,
    Delete,
}

impl Action {
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
    pub kind: Kind,
    pub id: Arc<str>,
    pub before: Option<Version>,
    pub after: Option<Version>,
    /// What was done, where neither value is kept.
    pub left_out: Option<Action>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Version {
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
    pub skip: usize,
    pub take: usize,
}

#[derive(Clone, Debug)]
pub struct Page {
    pub entries: Vec<Entry>,
    pub total: usize,
    /// The oldest revision that the history leads back to.
    pub oldest: u64,
}

/// A named state: the whole configuration as it was, so that it does not depend on what history is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    pub name: String,
    pub revision: u64,
    pub time_ms: u64,
    pub author: Author,
    pub objects: u64,
    /// What it takes on the disk.
    pub bytes: u64,
}

/// A state to go back to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Point {
    Revision(u64),
    Checkpoint(String),
}

/// What to change at `base` for the configuration to be as it was; may hold objects that are so already.
#[derive(Clone, Debug)]
pub struct Past {
    pub base: u64,
    /// The revision that it was at.
    pub revision: u64,
    pub objects: Vec<(Kind, Arc<str>, Option<Version>)>,
}

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("the history leads back to revision {oldest}, not to {wanted}")]
    Trimmed { wanted: u64, oldest: u64 },
    #[error("revision {wanted} is not there yet, the configuration is at {current}")]
    Future { wanted: u64, current: u64 },
    #[error("there is no checkpoint {0}")]
    NoCheckpoint(String),
    #[error("there are {MAX_CHECKPOINTS} checkpoints, which is the most; delete one first")]
    TooManyCheckpoints,
    #[error(
        "the checkpoint takes {bytes} bytes, and with the {taken} of the others that is more than {limit}; delete others, or \
         raise history.max_bytes, of which checkpoints may take {CHECKPOINT_SHARE} times as much"
    )]
    LargeCheckpoints { bytes: u64, taken: u64, limit: u64 },
    #[error("{0}")]
    Store(#[from] StoreError),
}

pub trait History: Send + Sync {
    fn entries(&self, query: &Query) -> Result<Page, HistoryError>;
    /// One entry and `take` of its differences from `skip` on.
    fn entry(
        &self,
        revision: u64,
        skip: usize,
        take: usize,
    ) -> Result<Option<(Entry, Vec<Difference>)>, HistoryError>;
    fn past(&self, point: &Point) -> Result<Past, HistoryError>;
    /// By name.
    fn checkpoints(&self) -> Result<Vec<Checkpoint>, HistoryError>;
    /// Keeps the newest durable state under this name; whether the name was in use, which then means this state.
    fn put_checkpoint(&self, name: &str, author: &Author) -> Result<(Checkpoint, bool), HistoryError>;
    /// `false`: there was none of this name.
    fn delete_checkpoint(&self, name: &str) -> Result<bool, HistoryError>;
}
