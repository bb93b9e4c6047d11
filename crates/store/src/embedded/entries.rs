//! History on its way to the disk: what a write adds, and what is trimmed for it.
//!
//! `history` has a row for each write, `history_changes` one for each object it changed, with the object before and
//! after, and `history_objects` tells where an object was changed. A write whose values alone would take more than the
//! history may is told without them. What is trimmed for it: [`super::trimming`].

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use redb::{ReadableDatabase, TableDefinition, TableError, WriteTransaction};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_model::{Kind, Object};

use super::{
    database::{Database, META},
    expiries::now_ms,
    record,
    sealing::Sealed,
    trimming::{self, Added},
};
use crate::history::{Action, Author, Entry, Version};

/// Revision; milliseconds since 1970 as a little-endian u64, then JSON.
pub const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("history");
/// Revision and position; JSON.
pub const CHANGES: TableDefinition<(u64, u32), &[u8]> = TableDefinition::new("history_changes");
/// The object's key, then the revision as a big-endian u64; the position of the change.
pub const OBJECTS: TableDefinition<&[u8], u32> = TableDefinition::new("history_objects");

/// The oldest revision that the history leads back to.
pub const OLDEST: &str = "history_oldest";
/// The newest revision it knows of: another one than the objects' was written by a program without history.
const NEWEST: &str = "history_newest";
/// In the row of a write without values: what they would have taken. In the rows of its objects: what was done.
const LEFT_OUT: &str = "x";
/// Which of the values, `b` and `a`, were written in plain although they look encrypted.
const PLAIN: &str = "p";

/// An entry names so many of its objects by itself.
const FIRST: usize = 10;
/// One write to tell of.
pub struct Draft<'a> {
    pub author: &'a Author,
    pub revision: u64,
    pub changes: Vec<Changed<'a>>,
}

/// An object, and when it expires.
type At<'a> = Option<(&'a Object, Option<u64>)>;

#[derive(Clone, Copy)]
pub struct Changed<'a> {
    pub kind: Kind,
    pub id: &'a str,
    pub before: At<'a>,
    pub after: At<'a>,
}

impl Changed<'_> {
    fn action(&self) -> Action {
        match (self.before, self.after) {
            (None, _) => Action::Create,
            (Some(_), None) => Action::Delete,
            (Some(_), Some(_)) => Action::Update,
        }
    }
}

impl Database {
    /// Makes the tables. A history with a gap leads back to the gap only.
    pub fn begin_history(&self, revision: u64) -> Result<(), redb::Error> {
        let redb = self.opened()?;
        let known = match redb.begin_read()?.open_table(META) {
            Ok(meta) => meta.get(NEWEST)?.map(|newest| newest.value()),
            Err(TableError::TableDoesNotExist(_)) => None,
            Err(error) => return Err(error.into()),
        };
        if known == Some(revision) && trimming::is_counted(&redb.begin_read()?.open_table(META)?, revision)? {
            return Ok(());
        }
        let transaction = redb.begin_write()?;
        transaction.open_table(ENTRIES)?;
        transaction.open_table(CHANGES)?;
        transaction.open_table(OBJECTS)?;
        super::checkpoints::create(&transaction)?;
        {
            let mut meta = transaction.open_table(META)?;
            if known != Some(revision) {
                meta.insert(OLDEST, revision)?;
                meta.insert(NEWEST, revision)?;
            }
        }
        trimming::count(&transaction, revision)?;
        self.finish(transaction)?;
        Ok(())
    }

    /// Adds to the transaction that makes the changes durable, so that neither is there without the other.
    pub fn append(
        &self,
        transaction: &WriteTransaction,
        revision: u64,
        drafts: &[Draft<'_>],
    ) -> Result<(), redb::Error> {
        transaction.open_table(META)?.insert(NEWEST, revision)?;
        let now = now_ms();
        if self.retention.max_entries == 0 {
            transaction.open_table(META)?.insert(OLDEST, revision)?;
            return self.trim_for(transaction, revision, now, Added::default());
        }
        let mut added = Added::default();
        {
            let mut entries = transaction.open_table(ENTRIES)?;
            let mut changes = transaction.open_table(CHANGES)?;
            let mut objects = transaction.open_table(OBJECTS)?;
            for draft in drafts {
                let merged = merge(&draft.changes);
                let left_out = Some(bytes_of(&merged)).filter(|bytes| *bytes > self.retention.max_bytes);
                if left_out.is_some() {
                    // No way leads back across it.
                    transaction.open_table(META)?.insert(OLDEST, draft.revision)?;
                }
                let entry = entry_bytes(draft, &merged, left_out, now);
                entries.insert(draft.revision, entry.as_slice())?;
                added.row(entry.len());
                for (position, change) in (0_u32..).zip(&merged) {
                    let bytes = match left_out {
                        Some(_) => bare_bytes(change),
                        None => self.change_bytes(change),
                    };
                    changes.insert((draft.revision, position), bytes.as_slice())?;
                    objects
                        .insert(object_key(change.kind, change.id, draft.revision).as_slice(), position)?;
                    added.row(bytes.len());
                }
            }
        }
        self.trim_for(transaction, revision, now, added)
    }

    fn change_bytes(&self, change: &Changed<'_>) -> Vec<u8> {
        let mut row = json!({"k": record::code(change.kind), "i": change.id});
        let mut plain = String::new();
        for (name, at) in [("b", change.before), ("a", change.after)] {
            row[name] = match at {
                None => Value::Null,
                Some((object, expires)) => {
                    let Sealed { value, is_plain } = self.hooks.seal(object);
                    plain.push_str(if is_plain { name } else { "" });
                    json!([*value, expires])
                }
            };
        }
        if !plain.is_empty() {
            row[PLAIN] = plain.into();
        }
        row.to_string().into_bytes()
    }

    /// `None` when the bytes are not such a row.
    pub fn change(&self, bytes: &[u8]) -> Option<crate::history::Difference> {
        let mut row: Value = serde_json::from_slice(bytes).ok()?;
        let (kind, id) = object_of(&row)?;
        let plain = row.get(PLAIN).and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut version = |name: &str| match row.get_mut(name).map(Value::take) {
            Some(Value::Array(mut pair)) if pair.len() == 2 => {
                let expires_at_ms = pair.pop()?.as_u64();
                let mut value = Arc::new(pair.pop()?);
                let is_plain = plain.contains(name);
                let opened = if is_plain { Ok(false) } else { self.hooks.open_value(kind, &id, &mut value) };
                Some(Version { value, expires_at_ms, sealed: opened.err() })
            }
            _ => None,
        };
        let (before, after) = (version("b"), version("a"));
        let left_out = row.get(LEFT_OUT).and_then(Value::as_str).map(action);
        Some(crate::history::Difference { kind, id, before, after, left_out })
    }
}

/// What the rows of these changes take, about: without encryption.
fn bytes_of(changes: &[Changed<'_>]) -> u64 {
    let text = |at: At<'_>| at.map_or(0, |(object, _)| object.document.text().len());
    let row =
        |change: &Changed<'_>| trimming::taken(text(change.before) + text(change.after) + change.id.len());
    changes.iter().map(row).sum()
}

/// A change without its values.
fn bare_bytes(change: &Changed<'_>) -> Vec<u8> {
    json!({"k": record::code(change.kind), "i": change.id, LEFT_OUT: change.action().name()})
        .to_string()
        .into_bytes()
}

fn action(name: &str) -> Action {
    match name {
        "create" => Action::Create,
        "delete" => Action::Delete,
        _ => Action::Update,
    }
}

/// One change for each object: a write may touch one twice.
fn merge<'a>(changes: &[Changed<'a>]) -> Vec<Changed<'a>> {
    let mut places: HashMap<(Kind, &str), usize> = HashMap::with_capacity(changes.len());
    let mut merged: Vec<Changed<'a>> = Vec::with_capacity(changes.len());
    for change in changes {
        match places.get(&(change.kind, change.id)).and_then(|place| merged.get_mut(*place)) {
            Some(first) => first.after = change.after,
            None => {
                places.insert((change.kind, change.id), merged.len());
                merged.push(*change);
            }
        }
    }
    merged.retain(|change| change.before.is_some() || change.after.is_some());
    merged
}

pub fn object_key(kind: Kind, id: &str, revision: u64) -> Vec<u8> {
    let mut key = record::key(kind, id);
    key.extend_from_slice(&revision.to_be_bytes());
    key
}

fn entry_bytes(draft: &Draft<'_>, changes: &[Changed<'_>], left_out: Option<u64>, now_ms: u64) -> Vec<u8> {
    let first = changes.iter().take(FIRST);
    let first: Vec<Value> = first
        .map(|change| json!({"k": record::code(change.kind), "i": change.id, "a": change.action().name()}))
        .collect();
    let mut bytes = now_ms.to_le_bytes().to_vec();
    let mut json = json!({"who": author_json(draft.author), "count": changes.len(), "first": first});
    if let Some(bytes) = left_out {
        json[LEFT_OUT] = bytes.into();
    }
    bytes.extend_from_slice(json.to_string().as_bytes());
    bytes
}

pub(super) fn time(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |time| u64::from_le_bytes(*time))
}

/// `None` when the bytes are not such a row.
pub fn entry(revision: u64, bytes: &[u8]) -> Option<Entry> {
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

fn object_of(row: &Value) -> Option<(Kind, Arc<str>)> {
    let code = u8::try_from(row.get("k")?.as_u64()?).ok()?;
    Some((record::kind(code)?, row.get("i")?.as_str()?.into()))
}

pub fn author_json(author: &Author) -> Value {
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

pub fn author(json: &Value) -> Author {
    let text = |name: &str| json.get(name).and_then(Value::as_str).map(str::to_owned);
    Author {
        name: text("name"),
        role: text("role"),
        address: text("address").and_then(|address| address.parse().ok()),
        request: text("request").unwrap_or_default(),
        note: text("note"),
    }
}
