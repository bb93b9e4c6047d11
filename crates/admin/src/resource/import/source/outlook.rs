//! What an import comes to, before it is decided.

use std::{collections::HashSet, sync::Arc};

use tidegate_model::Kind;

use crate::resource::transaction::Wanted;

pub(super) type Key = (Kind, Arc<str>);

/// An object that the import would overwrite, and why it may not.
pub(super) struct Changed {
    pub key: Key,
    pub why: &'static str,
    /// By whom and when, where the history has it.
    pub by: Option<String>,
}

#[derive(Default)]
pub(super) struct Outlook {
    pub wanted: Vec<Wanted>,
    pub changed: Vec<Changed>,
    /// Of kinds without labels: they differ from the file.
    pub doubtful: Vec<Key>,
    /// Not there now.
    pub missing: Vec<Key>,
    /// Of kinds without labels: not in the file.
    pub others: Vec<Key>,
    /// An earlier import wrote them, and the file does not have them.
    pub left: Vec<Key>,
    /// Those of `left` that were changed since.
    pub touched: HashSet<Key>,
}

impl Changed {
    pub(super) fn new(key: Key, why: &'static str) -> Changed {
        Changed { key, why, by: None }
    }
}

pub(super) fn named(key: &Key) -> String {
    format!("{}/{}", key.0.directory(), key.1)
}
