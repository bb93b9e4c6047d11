//! What the entries of `deployment.admin.admin_key` cannot be.

use serde_json::Value;

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
        found.extend(label_refusals(settings, &scope));
        found.extend(scope_refusals(key.role == AdminRole::Admin, &key.scope, is_given, scope));
    }
    found
}

/// Labels of objects are texts: no other value is one of them.
pub(super) fn label_refusals(settings: &Settings, scope: &str) -> Option<Said> {
    let pointer = format!("/{}", scope.replace(['.', '['], "/").replace(']', ""));
    let labels = settings.raw.pointer(&pointer)?.as_object()?;
    let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
    let message = "each label in scope should have one text that is not empty, like team: payments; put numbers in quotes, and \
                   for one value or another write an entry for each";
    labels.values().any(|value| !is_text(value)).then(|| (scope.to_owned(), message.to_owned()))
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
