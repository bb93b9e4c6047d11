//! What the history tells about objects that an import would write.

use std::sync::Arc;

use tidegate_model::Kind;
use tidegate_store::history::{Entry, History, HistoryError, Query};

use super::{
    outlook::{Changed, Key, Outlook},
    refusal::MOST_NAMED,
};
use crate::{
    AdminApi,
    message::Response,
    resource::{asking, history::time},
};

/// Changes of an object that are looked through for one by an import.
const MOST_LOOKED_AT: usize = 100;

/// So many objects are asked about by whom they were changed; a refusal names no more.
const MOST_EXPLAINED: usize = MOST_NAMED;

/// Tells what is doubtful, what was deleted by hand, and who changed what.
pub(super) async fn complete(api: &AdminApi, note: &str, outlook: &mut Outlook) -> Result<(), Response> {
    let [doubtful, missing, others] =
        [&mut outlook.doubtful, &mut outlook.missing, &mut outlook.others].map(std::mem::take);
    if api.store.history().is_none() {
        let unknown = |key| Changed::new(key, "no history shows whether it was changed by hand");
        outlook.changed.extend(doubtful.into_iter().map(unknown));
        return Ok(());
    }
    if doubtful.is_empty() && missing.is_empty() && others.is_empty() && outlook.changed.is_empty() {
        return Ok(());
    }
    let explained: Vec<Key> =
        outlook.changed.iter().take(MOST_EXPLAINED).map(|changed| changed.key.clone()).collect();
    let note = note.to_owned();
    let found = asking::ask(api, move |history| {
        let asked = Asked { history, note: &note };
        Ok(Found {
            changed: [asked.changed(doubtful)?, asked.deleted(missing)?].into_iter().flatten().collect(),
            left: asked.left(others)?,
            by: explained.into_iter().map(|key| asked.newest(&key)).collect::<Result<_, _>>()?,
        })
    })
    .await?;
    for (changed, by) in outlook.changed.iter_mut().zip(found.by) {
        changed.by = by.as_ref().map(by_whom);
    }
    outlook.changed.extend(found.changed);
    outlook.left.extend(found.left);
    Ok(())
}

struct Found {
    changed: Vec<Changed>,
    left: Vec<Key>,
    by: Vec<Option<Entry>>,
}

struct Asked<'a> {
    history: &'a dyn History,
    /// Of imports of the same source.
    note: &'a str,
}

impl Asked<'_> {
    fn entries(&self, key: &Key, take: usize) -> Result<Vec<Entry>, HistoryError> {
        let object: Option<(Kind, Arc<str>)> = Some(key.clone());
        Ok(self.history.entries(&Query { object, since: 0, skip: 0, take })?.entries)
    }

    fn newest(&self, key: &Key) -> Result<Option<Entry>, HistoryError> {
        Ok(self.entries(key, 1)?.into_iter().next())
    }

    fn is_import(&self, entry: &Entry) -> bool {
        entry.author.note.as_deref() == Some(self.note)
    }

    /// Those that something else than an import wrote last, or that have no history.
    fn changed(&self, keys: Vec<Key>) -> Result<Vec<Changed>, HistoryError> {
        let mut changed = Vec::new();
        for key in keys {
            let newest = self.newest(&key)?;
            if !newest.as_ref().is_some_and(|entry| self.is_import(entry)) {
                let why = "not written last by an import";
                changed.push(Changed { key, why, by: newest.as_ref().map(by_whom) });
            }
        }
        Ok(changed)
    }

    /// Those that an import wrote and another request deleted, a rollback too: what it took away was perhaps a key that was revoked.
    fn deleted(&self, keys: Vec<Key>) -> Result<Vec<Changed>, HistoryError> {
        let mut deleted = Vec::new();
        for key in keys {
            let entries = self.entries(&key, MOST_LOOKED_AT)?;
            let Some((newest, before)) = entries.split_first() else { continue };
            // Of an object with a longer history, an import may have been the first write.
            let imported =
                entries.len() == MOST_LOOKED_AT || before.iter().any(|entry| self.is_import(entry));
            if imported && !self.is_import(newest) {
                deleted.push(Changed {
                    why: "deleted since the last import",
                    by: Some(by_whom(newest)),
                    key,
                });
            }
        }
        Ok(deleted)
    }

    /// Those that an import wrote.
    fn left(&self, keys: Vec<Key>) -> Result<Vec<Key>, HistoryError> {
        let mut left = Vec::new();
        for key in keys {
            if self.entries(&key, MOST_LOOKED_AT)?.iter().any(|entry| self.is_import(entry)) {
                left.push(key);
            }
        }
        Ok(left)
    }
}

fn by_whom(entry: &Entry) -> String {
    let author = &entry.author;
    let name = author.name.as_deref().map(|name| format!(" by {name}")).unwrap_or_default();
    let address = author.address.map(|address| format!(" from {address}")).unwrap_or_default();
    format!("{}{name}{address} at {}, revision {}", author.request, time(entry.time_ms), entry.revision)
}
