//! What is wrong with a store that cannot be used.

use std::path::Path;

use super::files::marker;
use crate::error::StoreError;

pub(super) fn stopped() -> StoreError {
    StoreError::Unavailable("the configuration database has stopped; restart the gateway".to_owned())
}

pub(super) fn unavailable(message: String) -> StoreError {
    StoreError::Unavailable(message)
}

/// The message for a store that cannot be used.
pub(super) fn damaged(path: &Path, problem: &str) -> StoreError {
    let shown = path.display();
    let signs = [marker(path), super::files::place(path)].into_iter().filter(|sign| sign.exists());
    let and_signs: String = signs.map(|sign| format!(" and {}", sign.display())).collect();
    StoreError::Damaged(format!(
        "database {shown} is damaged ({problem}); run `tidegate config repair` to see what can be recovered, \
         restore a backup, or move it{and_signs} away to start with an empty configuration"
    ))
}
