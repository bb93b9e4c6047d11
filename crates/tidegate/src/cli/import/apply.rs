//! Objects into a running gateway: all of them in one transaction, or none.

use anyhow::{Context, bail};
use serde_json::{Map, Value};
use tidegate_import::Output;

use crate::cli::{
    admin_api::{Question, ask_at},
    stdout,
};

/// Merges the objects into the configuration of the gateway, as `tidegate config import` does.
pub(super) fn apply(output: &Output, admin: &str, key: &str) -> anyhow::Result<()> {
    let mut document = Map::new();
    for (collection, objects) in output.lists() {
        if !objects.iter().all(has_id) {
            bail!("an object of {collection} has no id; --apply needs one for each, and nothing was written");
        }
        document.insert(collection.to_owned(), objects.to_vec().into());
    }
    let question = Question {
        method: "PUT",
        path: "import?mode=merge",
        content_type: "application/json",
        body: &Value::Object(document).to_string(),
        instead: "start it, or give --admin",
    };
    let answer = ask_at(admin, Some(key).filter(|key| !key.is_empty()), &question)?;
    let answer: Value = serde_json::from_str(&answer).context("the Admin API answered without JSON")?;
    let changed = answer["changes"].as_array().map_or(0, Vec::len);
    let revision = &answer["revision"];
    stdout::line(&format!("{changed} objects changed; the configuration is at revision {revision}"));
    Ok(())
}

/// Without one it would have another id with each import.
fn has_id(object: &Value) -> bool {
    ["id", "username"].iter().any(|name| object.get(name).is_some_and(|id| !id.is_null()))
}
