//! Why an object cannot be used, without the secrets that it has.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use tidegate_model::mask::mask_texts;

/// Why an object cannot be used.
pub(crate) struct Problem {
    pub(super) reason: String,
    /// Without what may be a secret.
    pub(super) shown: String,
}

/// The values that took the places of references while objects are built. No message may repeat them.
#[derive(Default)]
pub(crate) struct Resolved(Mutex<BTreeSet<String>>);

impl Resolved {
    pub(super) fn remember(&self, value: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(value);
    }

    pub(crate) fn forget(&mut self) {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(super) fn mask(&self, message: &str) -> String {
        let values = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        mask_texts(values.iter().map(String::as_str), message)
    }
}
