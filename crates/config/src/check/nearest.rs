//! What an unknown key was probably meant to be.

use tidegate_model::nearest::nearest;

use crate::keys::{self, key::Fate};

/// A similar name in the same table.
pub(super) fn near(table: &str, name: &str) -> Option<&'static str> {
    nearest(name, keys::children(table))
}

/// The end of the message: a similar name in the same table, or the same name elsewhere; else nothing.
pub(super) fn hint(table: &str, name: &str) -> String {
    if let Some(known) = near(table, name) {
        return format!("; did you mean {known}?");
    }
    let named = |key: &&crate::keys::key::Key| key.path.rsplit('.').next() == Some(name);
    // Rather where it does something, rather below the same table, and rather of HTTP.
    let rank = |key: &&crate::keys::key::Key| {
        let is_elsewhere = !key.path.starts_with(&format!("{table}."));
        (key.fate != Fate::Served, is_elsewhere, key.path.contains(".stream."))
    };
    let elsewhere = keys::all().filter(named).min_by_key(rank);
    elsewhere.map(|key| format!("; it belongs at {}", key.path)).unwrap_or_default()
}
