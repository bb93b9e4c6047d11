//! Rows of the history.

use std::{borrow::Cow, sync::Arc};

use redb::TableDefinition;
use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate_model::Kind;

use super::record;
use crate::history::{Action, Author, Entry};

/// Revision; milliseconds since 1970 as a little-endian u64, then JSON.
pub(crate) const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("history");

/// Revision and position; JSON.
pub(super) const CHANGES: TableDefinition<(u64, u32), &[u8]> = TableDefinition::new("history_changes");

/// The object's key, then the revision as a big-endian u64; the position of the change.
pub(super) const OBJECTS: TableDefinition<&[u8], u32> = TableDefinition::new("history_objects");

/// The oldest revision that the history leads back to.
pub(crate) const OLDEST: &str = "history_oldest";

/// The newest revision it knows of: another one than the objects' was written by a program without history.
pub(super) const NEWEST: &str = "history_newest";

/// In the row of a write without values: what they would have taken. In the rows of its objects: what was done.
pub(super) const LEFT_OUT: &str = "x";

/// Which of the values, `b` and `a`, were written in plain although they look encrypted.
pub(super) const PLAIN: &str = "p";

pub(super) fn action(name: &str) -> Action {
    match name {
        "create" => Action::Create,
        "delete" => Action::Delete,
        _ => Action::Update,
    }
}

pub(super) fn object_key(kind: Kind, id: &str, revision: u64) -> Vec<u8> {
    let mut key = record::key(kind, id);
    key.extend_from_slice(&revision.to_be_bytes());
    key
}

pub(super) fn time(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |time| u64::from_le_bytes(*time))
}

/// `None` when the bytes are not such a row.
pub(super) fn entry(revision: u64, bytes: &[u8]) -> Option<Entry> {
    let (time, json) = bytes.split_first_chunk()?;
    let row: Value = serde_json::from_slice(json).ok()?;
    let first = row.get("first")?.as_array()?.iter().filter_map(|item| {
        let (kind, id) = object_of(item)?;
        Some((kind, id, action(item.get("a")?.as_str()?)))
    });
    Some(Entry {
        revision,
        time_ms: u64::from_le_bytes(*time),
        author: author(row.get("who")?),
        changes: row.get("count")?.as_u64()?,
        first: first.collect(),
        left_out_bytes: row.get(LEFT_OUT).and_then(Value::as_u64),
    })
}

/// The object of a row. Its values may be long: they are passed over.
pub(super) fn named(bytes: &[u8]) -> Option<(Kind, Arc<str>)> {
    #[derive(Deserialize)]
    struct Name<'a> {
        k: u8,
        #[serde(borrow)]
        i: Cow<'a, str>,
    }
    let name: Name<'_> = serde_json::from_slice(bytes).ok()?;
    Some((record::kind(name.k)?, name.i.into()))
}

pub(super) fn object_of(row: &Value) -> Option<(Kind, Arc<str>)> {
    let code = u8::try_from(row.get("k")?.as_u64()?).ok()?;
    Some((record::kind(code)?, row.get("i")?.as_str()?.into()))
}

pub(crate) fn author_json(author: &Author) -> Value {
    let mut fields = Map::new();
    let address = author.address.map(|address| address.to_string());
    let texts = [
        ("name", author.name.clone()),
        ("role", author.role.clone()),
        ("address", address),
        ("request", Some(author.request.clone())),
        ("note", author.note.clone()),
    ];
    for (name, text) in texts {
        if let Some(text) = text {
            fields.insert(name.to_owned(), text.into());
        }
    }
    Value::Object(fields)
}

pub(super) fn author(json: &Value) -> Author {
    let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
    Author {
        name: text("name"),
        role: text("role"),
        address: text("address").and_then(|address| address.parse().ok()),
        request: text("request").unwrap_or_default(),
        note: text("note"),
    }
}
