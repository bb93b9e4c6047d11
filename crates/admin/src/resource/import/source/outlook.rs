//! What an import comes to, before it is decided.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;
use tidegate_model::Kind;

use super::place::Place;
use crate::resource::transaction::Wanted;

pub(super) type Key = (Kind, Arc<str>);

/// An object that the import would write, and why it may not.
pub(super) struct Changed {
    pub key: Key,
    pub why: String,
    /// By whom and when, where the history has it.
    pub by: Option<String>,
    pub was: Was,
}

/// What there is in place of what the file has.
pub(super) enum Was {
    /// Another version. `written`: what the last import wrote, where no label says so and the history does.
    There { written: Option<Arc<Value>> },
    /// Nothing any more; what it was, where that is known.
    Deleted(Option<Arc<Value>>),
    /// Nothing of this name; its content had another name when it was taken away.
    Renamed,
}

#[derive(Default)]
pub(super) struct Outlook {
    pub wanted: Vec<Wanted>,
    pub changed: Vec<Changed>,
    /// Of kinds without labels: they differ from the file.
    pub doubtful: Vec<Key>,
    /// Those of `changed` whose labels do not tell what an import wrote.
    pub unlabelled: Vec<Key>,
    /// Not there now.
    pub missing: Vec<Key>,
    /// Perhaps of an earlier import, and not in the file: kinds without labels, and routes without them whose place a missing
    /// one has.
    pub others: Vec<Key>,
    /// An earlier import wrote them, and the file does not have them.
    pub left: Vec<Key>,
    /// Those of `left` that were changed since.
    pub touched: HashSet<Key>,
    pub coming: Coming,
}

/// What would be there again, whatever it is called.
#[derive(Default)]
pub(super) struct Coming {
    /// By what consumers are recognised; no object has them now.
    pub identities: HashMap<String, Key>,
    /// Of routes that are missing.
    pub places: HashMap<Place, Vec<Key>>,
}

impl Changed {
    pub(super) fn new(key: Key, why: &str) -> Changed {
        Changed { key, why: why.to_owned(), by: None, was: Was::There { written: None } }
    }
}

pub(super) fn named(key: &Key) -> String {
    format!("{}/{}", key.0.directory(), key.1)
}
