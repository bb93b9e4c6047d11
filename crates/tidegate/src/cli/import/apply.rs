//! Objects into a running gateway: all of them in one step, or none.
//!
//! Each object gets a label with the kind of the import. What an earlier import has left and this one does not write would stay
//! beside it, and may answer requests without their new guards: that is for the caller to decide.

use anyhow::{Context, bail};
use serde_json::{Map, Value, json};
use tidegate_import::Output;

use crate::cli::{
    admin_api::{Question, ask_at},
    count::objects,
    stdout,
};

const LABEL: &str = "imported-from";

/// Collections whose objects may have labels.
const LABELLED: [&str; 8] = [
    "ssls",
    "upstreams",
    "services",
    "plugin_configs",
    "consumer_groups",
    "consumers",
    "routes",
    "stream_routes",
];

/// So many objects are named in a refusal.
const MOST_NAMED: usize = 5;

/// What becomes of the objects of an earlier import that this one does not write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Earlier {
    Refuse,
    Remove,
    Keep,
}

/// The Admin API of the gateway.
pub(super) struct Gateway<'a> {
    pub admin: &'a str,
    /// Empty where it asks for none.
    pub key: &'a str,
}

impl Gateway<'_> {
    fn ask(&self, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
        let question = Question {
            method,
            path,
            content_type: "application/json",
            body,
            instead: "start it, or give --admin",
        };
        let answer = ask_at(self.admin, Some(self.key).filter(|key| !key.is_empty()), &question)?;
        serde_json::from_str(&answer).context("the Admin API answered without JSON")
    }

    /// Paths of the objects that an earlier import of this kind wrote, and that are not among `document`.
    fn left_over(&self, kind: &str, document: &Map<String, Value>) -> anyhow::Result<Vec<String>> {
        let mut found = Vec::new();
        for collection in LABELLED {
            let answer = match self.ask("GET", collection, "") {
                Ok(answer) => answer,
                // There are none while streams are off.
                Err(_) if collection == "stream_routes" => continue,
                Err(error) => return Err(error),
            };
            let own = document.get(collection).and_then(Value::as_array);
            let written: Vec<String> = own.into_iter().flatten().filter_map(id_of).collect();
            let items = answer.get("list").and_then(Value::as_array).into_iter().flatten();
            let values = items.filter_map(|item| item.get("value"));
            let earlier =
                values.filter(|value| value.pointer(&format!("/labels/{LABEL}")) == Some(&json!(kind)));
            let left = earlier.filter_map(id_of).filter(|id| !written.contains(id));
            found.extend(left.map(|id| format!("/{collection}/{id}")));
        }
        Ok(found)
    }
}

/// Merges the objects into the configuration of the gateway, as `tidegate config import` does.
pub(super) fn apply(
    output: &Output,
    kind: &str,
    gateway: &Gateway<'_>,
    earlier: Earlier,
) -> anyhow::Result<()> {
    let mut document = Map::new();
    for (collection, objects) in output.lists() {
        if !objects.iter().all(|object| id_of(object).is_some()) {
            bail!("an object of {collection} has no id; --apply needs one for each, and nothing was written");
        }
        let labelled = LABELLED.contains(&collection);
        let objects =
            objects.iter().map(|object| if labelled { marked(object, kind) } else { object.clone() });
        document.insert(collection.to_owned(), objects.collect());
    }
    let left = if earlier == Earlier::Keep { Vec::new() } else { gateway.left_over(kind, &document)? };
    if earlier == Earlier::Refuse && !left.is_empty() {
        let named = left.iter().take(MOST_NAMED).map(|path| path.trim_start_matches('/'));
        let more = left.len().saturating_sub(MOST_NAMED);
        let more = if more == 0 { String::new() } else { format!(" and {more} more") };
        bail!(
            "an earlier import of {kind} wrote objects that this file does not have: {}{more}. They would stay, and may \
             answer requests without the guards of this file; nothing was written. --replace removes them in the same \
             step, --keep leaves them",
            named.collect::<Vec<_>>().join(", ")
        );
    }
    let answer = if left.is_empty() {
        gateway.ask("PUT", "import?mode=merge", &Value::Object(document).to_string())?
    } else {
        let removed = left.iter().map(|path| json!({"method": "DELETE", "path": path}));
        let written = document.iter().flat_map(|(collection, objects)| {
            let objects = objects.as_array().into_iter().flatten();
            objects.filter_map(move |object| {
                let path = format!("/{collection}/{}", id_of(object)?);
                Some(json!({"method": "PUT", "path": path, "value": object}))
            })
        });
        let changes: Vec<Value> = removed.chain(written).collect();
        gateway.ask("POST", "transactions", &json!({"changes": changes}).to_string())?
    };
    let changed = objects(answer["changes"].as_array().map_or(0, Vec::len) as u64);
    let revision = &answer["revision"];
    stdout::line(&format!("{changed} changed; the configuration is at revision {revision}"));
    Ok(())
}

/// Without one it would have another id with each import.
fn id_of(object: &Value) -> Option<String> {
    let id = ["id", "username"].iter().find_map(|name| object.get(name).filter(|id| !id.is_null()))?;
    Some(id.as_str().map_or_else(|| id.to_string(), str::to_owned))
}

fn marked(object: &Value, kind: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        let labels = fields.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(LABEL.to_owned(), kind.into());
        }
    }
    object
}
