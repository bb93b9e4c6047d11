//! Changes before they are an entry of the history.

use tidegate_model::{Kind, Object};

use crate::history::{Action, Author};

/// One write for the history.
pub(crate) struct Draft<'a> {
    pub author: &'a Author,
    pub revision: u64,
    pub changes: Vec<Changed<'a>>,
}

/// An object, and when it expires.
pub(super) type At<'a> = Option<(&'a Object, Option<u64>)>;

#[derive(Clone, Copy)]
pub(crate) struct Changed<'a> {
    pub kind: Kind,
    pub id: &'a str,
    pub before: At<'a>,
    pub after: At<'a>,
}

impl Changed<'_> {
    pub(super) fn action(&self) -> Action {
        match (self.before, self.after) {
            (None, _) => Action::Create,
            (Some(_), None) => Action::Delete,
            (Some(_), Some(_)) => Action::Update,
        }
    }
}
