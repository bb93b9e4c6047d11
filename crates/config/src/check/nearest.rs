//! What an unknown key was probably meant to be.

use model::nearest::nearest;

use crate::keys;

/// The end of the message: a similar name in the same table, or the same name elsewhere; else nothing.
pub fn hint(table: &str, name: &str) -> String {
    if let Some(known) = nearest(name, keys::children(table)) {
        return format!("; did you mean {known}?");
    }
    let elsewhere = keys::all().map(|key| key.path).find(|path| path.rsplit('.').next() == Some(name));
    elsewhere.map(|path| format!("; it belongs at {path}")).unwrap_or_default()
}
