//! History on its way to the disk: what a write adds, and what is trimmed for it.
//!
//! `history` has a row for each write, `history_changes` one for each object it changed, with the object before and
//! after, and `history_objects` lists where an object was changed. A write whose values alone exceed the limit of the
//! history is recorded without them. What is trimmed for it: [`super::trimming`].

use std::{collections::HashMap, sync::Arc};

use redb::{ReadableDatabase, TableError, WriteTransaction};
use serde_json::{Value, json};
use tidegate_model::Kind;

use super::{
    database::Database,
    draft::{At, Changed, Draft},
    expiries::now_ms,
    record,
    rows::{
        CHANGES, ENTRIES, LEFT_OUT, NEWEST, OBJECTS, OLDEST, PLAIN, action, author_json, object_key,
        object_of,
    },
    sealing::Sealed,
    tables::META,
    trimming::{self, Added},
};
use crate::history::Version;

/// An entry names so many of its objects by itself.
const FIRST: usize = 10;

impl Database {
    /// Makes the tables. A history with a gap leads back to the gap only.
    pub(crate) fn begin_history(&self, revision: u64) -> Result<(), redb::Error> {
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
    pub(super) fn append(
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
    pub(super) fn change(&self, bytes: &[u8]) -> Option<crate::history::Difference> {
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
