//! Where the configuration is kept: an embedded database, an etcd cluster, or files that the gateway only reads.
//!
//! Every provider shows the same thing: a revision, the objects at that revision, and what changed since an
//! older one. Reads are served from memory; a write is acknowledged when it is durable.

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod api_driven;
mod collections;
pub mod embedded;
mod error;
#[cfg_attr(not(feature = "etcd"), path = "etcd/absent.rs")]
pub mod etcd;
pub mod file;
pub mod history;
mod live;
pub mod memory;
mod replacing;
pub mod state;
pub mod users;

use std::{future::Future, path::PathBuf, pin::Pin, sync::Arc};

pub use api_driven::ApiDriven;
pub use collections::{COLLECTIONS, FAULTS_OF_ITEMS};
pub use embedded::{Embedded, LastGood};
pub use error::StoreError;
pub use etcd::Etcd;
pub use file::File;
pub use history::{Author, History};
pub use memory::Memory;
use serde_json::Value;
pub use state::State;
use tidegate_model::{Kind, Object, Objects};
pub use users::Users;

/// Of a trait's method that waits.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// One write. `expected` makes it conditional on the object's current `modified` revision (0: must not exist).
#[derive(Clone, Debug)]
pub enum Operation {
    /// Stores under a given id.
    Put {
        /// Of the object.
        kind: Kind,
        /// Of the object.
        id: Arc<str>,
        /// Replaces the old value.
        value: Arc<Value>,
        /// The object's revision that the write depends on; 0: it must not exist. `None`: whatever there is.
        expected: Option<u64>,
        /// Time to live; `None`: for ever.
        ttl_seconds: Option<u64>,
    },
    /// Stores under an id made of the new revision, zero-padded to 20 digits, which is also put into `value.id`.
    Create {
        /// Of the object.
        kind: Kind,
        /// The object, without an id.
        value: Value,
        /// Time to live; `None`: for ever.
        ttl_seconds: Option<u64>,
    },
    /// Removes an object; succeeds if there is none.
    Delete {
        /// Of the object.
        kind: Kind,
        /// Of the object.
        id: Arc<str>,
        /// The object's revision that the write depends on; `None`: whatever there is.
        expected: Option<u64>,
    },
}

/// What is written together: all of it or nothing.
#[derive(Clone, Debug, Default)]
pub struct Write {
    /// Applied in this order.
    pub operations: Vec<Operation>,
    /// The write takes place only if nothing at all has been written since this revision; else it ends with
    /// [`StoreError::Conflict`].
    pub at: Option<u64>,
    /// Recorded in the history, where the provider keeps one.
    pub author: Author,
}

impl From<Vec<Operation>> for Write {
    fn from(operations: Vec<Operation>) -> Self {
        Self { operations, ..Self::default() }
    }
}

/// What a write did: one entry per operation, in order.
#[derive(Clone, Debug)]
pub struct Written {
    /// Of the state that the write made.
    pub revision: u64,
    /// The object after a put or create; the removed object after a delete, `None` if there was none.
    pub objects: Vec<Option<Object>>,
    /// Lease id of writes with a ttl.
    pub lease: Option<u64>,
}

/// What changed since a revision.
pub enum Changes {
    /// `(kind, id, new object or None when deleted)` in revision order, and the revision they lead to.
    Delta {
        /// Of the state that results.
        revision: u64,
        /// In the order of their revisions.
        changes: Vec<Change>,
    },
    /// Too far back (or a file was replaced): take the whole state instead.
    Reset,
}

/// An object that is not as it was.
#[derive(Clone, Debug)]
pub struct Change {
    /// Of the object.
    pub kind: Kind,
    /// Of the object.
    pub id: Arc<str>,
    /// `None`: deleted.
    pub object: Option<Object>,
}

/// What is served in place of a store that is damaged.
#[derive(Clone, Debug)]
pub struct LastGoodState {
    /// Its file.
    pub copy: PathBuf,
    /// What is wrong with the store.
    pub problem: String,
    /// Of the state that is served.
    pub revision: u64,
    /// When this was the newest state, in milliseconds since 1970.
    pub taken_ms: u64,
    /// How far it is behind, in words, and in writes where that is known.
    pub lag: String,
    /// Acknowledged writes that the copy lacks; `None`: not known.
    pub writes_behind: Option<u64>,
}

/// The beginning of a message about an object, or about the part of it that the message names: `FILE:LINE:COLUMN: `.
pub type ObjectPlaces = Box<dyn Fn(Kind, &str, &str) -> String + Send>;

/// A provider of the configuration.
pub trait Store: Send + Sync {
    /// Runs `read` on the current state, under a shared lock: be quick.
    fn read(&self, read: &mut dyn FnMut(&State));
    /// Resolves when the write is durable and visible through `read`. A caller that drops the future does not undo it.
    fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>>;
    /// What was changed, where the provider keeps it.
    fn history(&self) -> Option<&dyn History> {
        None
    }
    /// Who may sign in with a password, where the provider keeps that.
    fn users(&self) -> Option<&dyn Users> {
        None
    }
    /// Set where the store is damaged and a copy of it is served, read-only.
    fn last_good(&self) -> Option<&LastGoodState> {
        None
    }
    /// Where objects stand, if they come from a file.
    fn places(&self) -> Option<ObjectPlaces> {
        None
    }
    /// From that revision to the current one.
    fn changes_since(&self, revision: u64) -> Changes;
    /// Notified with the new revision after every visible change.
    fn watch(&self) -> tokio::sync::watch::Receiver<u64>;
    /// Whether [`Store::write`] can succeed at all.
    fn is_writable(&self) -> bool;
    /// Whether revisions continue after a restart, so that none is given twice. Otherwise they count from the start of
    /// the process.
    fn revisions_last(&self) -> bool {
        true
    }

    /// The object as it is now.
    fn get(&self, kind: Kind, id: &str) -> Option<Object> {
        let mut found = None;
        self.read(&mut |state| found = state.get(kind, id).cloned());
        found
    }
}

/// The objects of a store, as they are when each is asked for.
pub struct Stored<'a>(pub &'a dyn Store);

impl Objects for Stored<'_> {
    fn get(&self, kind: Kind, id: &str) -> Option<Object> {
        self.0.get(kind, id)
    }

    fn with_field(&self, name: &str) -> Vec<Object> {
        let mut found = Vec::new();
        self.0.read(&mut |state| found = state.with_field(name));
        found
    }

    fn of_kind(&self, kind: Kind) -> Vec<Object> {
        let mut found = Vec::new();
        self.0.read(&mut |state| found = state.of_kind(kind));
        found
    }
}
