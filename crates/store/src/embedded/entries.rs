//! History on its way to the disk: what a write adds, and what is trimmed for it.
//!
//! `history` has a row for each write, `history_changes` one for each object it changed, with the object before and
//! after, and `history_objects` tells where an object was changed. Rows of changes may outlive their write's for a
//! while: trimming takes small steps.

use std::{
    collections::HashMap,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use model::{Document, Kind};
use redb::{
    ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition, TableError, WriteTransaction,
};
use serde_json::{Map, Value, json};

use super::{
    database::{Database, META},
    expiries::now_ms,
    record,
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

/// An entry names so many of its objects by itself.
const FIRST: usize = 10;
/// Rows that a write may remove beside those it makes room for.
const STEP_OF_A_WRITE: usize = 16;
const STEP: usize = 512;

/// One write to tell of.
pub struct Draft<'a> {
    pub author: &'a Author,
    pub revision: u64,
    pub changes: Vec<Changed<'a>>,
}

/// A value, and when it expires.
type At<'a> = Option<(&'a Document, Option<u64>)>;

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
        if known == Some(revision) {
            return Ok(());
        }
        let transaction = redb.begin_write()?;
        transaction.open_table(ENTRIES)?;
        transaction.open_table(CHANGES)?;
        transaction.open_table(OBJECTS)?;
        super::checkpoints::create(&transaction)?;
        {
            let mut meta = transaction.open_table(META)?;
            meta.insert(OLDEST, revision)?;
            meta.insert(NEWEST, revision)?;
        }
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
        if self.retention.max_entries == 0 {
            transaction.open_table(META)?.insert(OLDEST, revision)?;
            self.trim(transaction, now_ms(), STEP_OF_A_WRITE)?;
            return Ok(());
        }
        let (now, mut rows) = (now_ms(), 0);
        {
            let mut entries = transaction.open_table(ENTRIES)?;
            let mut changes = transaction.open_table(CHANGES)?;
            let mut objects = transaction.open_table(OBJECTS)?;
            for draft in drafts {
                let merged = merge(&draft.changes);
                entries.insert(draft.revision, entry_bytes(draft, &merged, now).as_slice())?;
                for (position, change) in (0_u32..).zip(&merged) {
                    let bytes = self.change_bytes(change);
                    changes.insert((draft.revision, position), bytes.as_slice())?;
                    objects
                        .insert(object_key(change.kind, change.id, draft.revision).as_slice(), position)?;
                    rows += 1;
                }
                rows += 1;
            }
        }
        self.trim(transaction, now, STEP_OF_A_WRITE + 2 * rows)?;
        Ok(())
    }

    /// Trims a bounded number of rows; whether there are more. What is damaged is left to the next write to tell.
    pub fn trim_step(&self, now_ms: u64) -> bool {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.try_trim_step(now_ms)));
        match outcome {
            Ok(Ok(more)) => more,
            Ok(Err(_)) | Err(_) => {
                self.fail();
                false
            }
        }
    }

    fn try_trim_step(&self, now_ms: u64) -> Result<bool, redb::Error> {
        let needed = {
            let redb = self.opened()?;
            let transaction = redb.begin_read()?;
            let entries = transaction.open_table(ENTRIES)?;
            let oldest = first_entry(&entries)?;
            let changes = transaction.open_table(CHANGES)?;
            let orphan = changes.first()?.map(|(key, _)| key.value().0);
            oldest.is_some_and(|(_, at)| self.exceeds(entries.len().unwrap_or(0), at, now_ms))
                || orphan.is_some_and(|orphan| oldest.is_none_or(|(oldest, _)| orphan < oldest))
        };
        if !needed {
            return Ok(false);
        }
        let redb = self.opened()?;
        let transaction = redb.begin_write()?;
        let more = self.trim(&transaction, now_ms, STEP)?;
        self.finish(transaction)?;
        Ok(more)
    }

    fn exceeds(&self, count: u64, oldest_ms: u64, now_ms: u64) -> bool {
        let age = now_ms.saturating_sub(oldest_ms);
        count > self.retention.max_entries || u128::from(age) > self.retention.max_age.as_millis()
    }

    /// Entries go first: without it, a change is nobody's and goes when there is time. Whether the budget was used up.
    fn trim(
        &self,
        transaction: &WriteTransaction,
        now_ms: u64,
        mut budget: usize,
    ) -> Result<bool, redb::Error> {
        let mut entries = transaction.open_table(ENTRIES)?;
        let mut trimmed = None;
        let mut count = entries.len()?;
        while budget > 0 {
            let Some((revision, at)) = first_entry(&entries)? else { break };
            if !self.exceeds(count, at, now_ms) {
                break;
            }
            entries.remove(revision)?;
            trimmed = Some(revision);
            (count, budget) = (count - 1, budget - 1);
        }
        if let Some(trimmed) = trimmed {
            let mut meta = transaction.open_table(META)?;
            let oldest = meta.get(OLDEST)?.map_or(0, |oldest| oldest.value());
            meta.insert(OLDEST, oldest.max(trimmed))?;
        }
        let oldest = entries.first()?.map_or(u64::MAX, |(revision, _)| revision.value());
        let mut changes = transaction.open_table(CHANGES)?;
        let mut objects = transaction.open_table(OBJECTS)?;
        while budget > 0 {
            let Some((key, object)) = first_change(&changes)? else { break };
            if key.0 >= oldest {
                break;
            }
            if let Some((kind, id)) = object {
                objects.remove(object_key(kind, &id, key.0).as_slice())?;
            }
            changes.remove(key)?;
            budget -= 1;
        }
        Ok(budget == 0)
    }

    fn change_bytes(&self, change: &Changed<'_>) -> Vec<u8> {
        let version = |at: At<'_>| match at {
            None => Value::Null,
            Some((document, expires)) => {
                let mut value = Arc::unwrap_or_clone(document.value());
                if let Some(encrypt) = &self.hooks.encrypt {
                    encrypt(change.kind, &mut value);
                }
                json!([value, expires])
            }
        };
        let (before, after) = (version(change.before), version(change.after));
        json!({"k": record::code(change.kind), "i": change.id, "b": before, "a": after})
            .to_string()
            .into_bytes()
    }

    /// `None` when the bytes are no such row.
    pub fn change(&self, bytes: &[u8]) -> Option<crate::history::Difference> {
        let mut row: Value = serde_json::from_slice(bytes).ok()?;
        let (kind, id) = object_of(&row)?;
        let mut version = |name: &str| match row.get_mut(name).map(Value::take) {
            Some(Value::Array(mut pair)) if pair.len() == 2 => {
                let expires_at_ms = pair.pop()?.as_u64();
                let mut value = pair.pop()?;
                if let Some(decrypt) = &self.hooks.decrypt {
                    decrypt(kind, &mut value);
                }
                Some(Version { value: Arc::new(value), expires_at_ms })
            }
            _ => None,
        };
        let (before, after) = (version("b"), version("a"));
        Some(crate::history::Difference { kind, id, before, after })
    }
}

/// Revision and time of the oldest.
fn first_entry(entries: &impl ReadableTable<u64, &'static [u8]>) -> Result<Option<(u64, u64)>, redb::Error> {
    Ok(entries.first()?.map(|(revision, bytes)| (revision.value(), time(bytes.value()))))
}

type ChangeKey = (u64, u32);

fn first_change(
    changes: &impl ReadableTable<ChangeKey, &'static [u8]>,
) -> Result<Option<(ChangeKey, Option<(Kind, Arc<str>)>)>, redb::Error> {
    Ok(changes.first()?.map(|(key, bytes)| (key.value(), named(bytes.value()))))
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

fn entry_bytes(draft: &Draft<'_>, changes: &[Changed<'_>], now_ms: u64) -> Vec<u8> {
    let first = changes.iter().take(FIRST);
    let first: Vec<Value> = first
        .map(|change| json!({"k": record::code(change.kind), "i": change.id, "a": change.action().name()}))
        .collect();
    let mut bytes = now_ms.to_le_bytes().to_vec();
    let json = json!({"who": author_json(draft.author), "count": changes.len(), "first": first});
    bytes.extend_from_slice(json.to_string().as_bytes());
    bytes
}

fn time(bytes: &[u8]) -> u64 {
    bytes.first_chunk().map_or(0, |time| u64::from_le_bytes(*time))
}

/// `None` when the bytes are no such row.
pub fn entry(revision: u64, bytes: &[u8]) -> Option<Entry> {
    let (time, json) = bytes.split_first_chunk()?;
    let row: Value = serde_json::from_slice(json).ok()?;
    let first = row.get("first")?.as_array()?.iter().filter_map(|item| {
        let (kind, id) = object_of(item)?;
        let action = match item.get("a")?.as_str()? {
            "create" => Action::Create,
            "delete" => Action::Delete,
            _ => Action::Update,
        };
        Some((kind, id, action))
    });
    Some(Entry {
        revision,
        time_ms: u64::from_le_bytes(*time),
        author: author(row.get("who")?),
        changes: row.get("count")?.as_u64()?,
        first: first.collect(),
    })
}

/// The object of a row, without the rest of it where that is long.
fn named(bytes: &[u8]) -> Option<(Kind, Arc<str>)> {
    object_of(&serde_json::from_slice(bytes).ok()?)
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
