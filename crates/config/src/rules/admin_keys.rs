//! What the entries of `deployment.admin.admin_key` cannot be.

use super::said::Said;
use crate::settings::{AdminKey, AdminRole, Settings};

pub(super) fn refusals(settings: &Settings) -> Vec<Said> {
    let keys = settings.admin.access.keys();
    let mut found = Vec::new();
    for (role, _) in AdminRole::NAMES {
        let generated = |key: &&AdminKey| key.role == role && key.is_generated();
        if keys.iter().filter(generated).count() > 1 {
            let message = "one key of each role can be generated; give the other entries a key";
            found.push(("deployment.admin.admin_key".to_owned(), message.to_owned()));
        }
    }
    for (index, key) in keys.iter().enumerate() {
        let at = |name: &str| format!("deployment.admin.admin_key[{index}].{name}");
        // It counts as absent, and an entry without a role is one of admin.
        if settings.places.is_null(&at("role")) {
            found.push((at("role"), "role is empty; use admin, editor or viewer".to_owned()));
        }
        let scope = at("scope");
        let is_given = settings.places.is_set(&scope) || settings.places.is_null(&scope);
        found.extend(scope_refusals(key.role == AdminRole::Admin, &key.scope, is_given, scope));
    }
    found
}

/// A scope that would be everything, or that role admin could leave.
pub(super) fn scope_refusals(
    is_admin: bool,
    labels: &std::collections::BTreeMap<String, String>,
    is_given: bool,
    key: String,
) -> Option<Said> {
    if is_admin && !labels.is_empty() {
        let message = "role admin has no scope: who may write users and plugins of code can reach everything; \
                       use editor or viewer";
        return Some((key, message.to_owned()));
    }
    (labels.is_empty() && is_given).then(|| (key, "scope is empty; name a label, or remove it".to_owned()))
}
