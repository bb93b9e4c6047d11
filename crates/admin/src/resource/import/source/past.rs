//! What the history tells about objects that an import would write.

mod removed;

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;
use tidegate_model::Kind;
use tidegate_store::history::{Difference, Entry, History, HistoryError, Query};

use super::{
    outlook::{Changed, Key, Outlook, Was},
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

/// Differences of an entry that are read at once.
const AT_ONCE: usize = 256;

/// Tells what is doubtful, what was deleted by hand, under whatever name it would come back, and who changed what.
pub(super) async fn complete(
    api: &AdminApi,
    source: &str,
    note: &str,
    outlook: &mut Outlook,
) -> Result<(), Response> {
    let [doubtful, missing, others] =
        [&mut outlook.doubtful, &mut outlook.missing, &mut outlook.others].map(std::mem::take);
    let coming = std::mem::take(&mut outlook.coming);
    if api.store.history().is_none() {
        let unknown = |key| Changed::new(key, "no history shows whether it was changed by hand");
        outlook.changed.extend(doubtful.into_iter().map(unknown));
        return Ok(());
    }
    let comes_nothing = coming.identities.is_empty() && coming.places.is_empty();
    if doubtful.is_empty()
        && missing.is_empty()
        && others.is_empty()
        && outlook.changed.is_empty()
        && comes_nothing
    {
        return Ok(());
    }
    let explained: Vec<Key> =
        outlook.changed.iter().take(MOST_EXPLAINED).map(|changed| changed.key.clone()).collect();
    let (note, source) = (note.to_owned(), source.to_owned());
    let unlabelled = std::mem::take(&mut outlook.unlabelled);
    let known: HashSet<Key> = outlook.changed.iter().map(|changed| changed.key.clone()).collect();
    let found = asking::ask(api, move |history| {
        let asked = Asked { history, source: &source, note: &note };
        let mut changed = asked.changed(doubtful)?;
        changed.extend(asked.deleted(missing)?);
        let told: HashSet<Key> =
            known.into_iter().chain(changed.iter().map(|changed| changed.key.clone())).collect();
        let again = if comes_nothing { Vec::new() } else { asked.removed(coming)? };
        changed.extend(again.into_iter().filter(|again| !told.contains(&again.key)));
        let written = unlabelled.into_iter().map(|key| Ok((asked.written(&key)?, key)));
        let written: Result<Vec<_>, HistoryError> = written.collect();
        Ok(Found {
            changed,
            written: written?.into_iter().filter_map(|(value, key)| Some((key, value?))).collect(),
            left: asked.left(others)?,
            by: explained.into_iter().map(|key| asked.newest(&key)).collect::<Result<_, _>>()?,
        })
    })
    .await?;
    for (changed, by) in outlook.changed.iter_mut().zip(found.by) {
        changed.by = by.as_ref().map(by_whom);
    }
    for changed in &mut outlook.changed {
        if let Some(value) = found.written.get(&changed.key) {
            changed.was = Was::There { written: Some(value.clone()) };
        }
    }
    outlook.changed.extend(found.changed);
    // Such a route was written again without its labels.
    outlook.touched.extend(found.left.iter().filter(|(kind, _)| *kind == Kind::Route).cloned());
    outlook.left.extend(found.left);
    Ok(())
}

struct Found {
    changed: Vec<Changed>,
    written: HashMap<Key, Arc<Value>>,
    left: Vec<Key>,
    by: Vec<Option<Entry>>,
}

struct Asked<'a> {
    history: &'a dyn History,
    /// The label of what its imports write.
    source: &'a str,
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

    /// Shows all differences of an entry, until one is enough.
    fn differences(
        &self,
        entry: &Entry,
        show: &mut dyn FnMut(Difference) -> bool,
    ) -> Result<(), HistoryError> {
        let mut skip = 0;
        while let Some((_, differences)) = self.history.entry(entry.revision, skip, AT_ONCE)? {
            let count = differences.len();
            for difference in differences {
                if !show(difference) {
                    return Ok(());
                }
            }
            if count < AT_ONCE {
                break;
            }
            skip += count;
        }
        Ok(())
    }

    /// The object before and after the write.
    fn versions(
        &self,
        key: &Key,
        entry: &Entry,
    ) -> Result<(Option<Arc<Value>>, Option<Arc<Value>>), HistoryError> {
        let mut found = (None, None);
        self.differences(entry, &mut |difference| {
            let is_it = difference.kind == key.0 && difference.id == key.1;
            if is_it {
                let value = |version: Option<tidegate_store::history::Version>| version.map(|v| v.value);
                found = (value(difference.before), value(difference.after));
            }
            !is_it
        })?;
        Ok(found)
    }

    /// Those that something else than an import wrote last, or that have no history.
    fn changed(&self, keys: Vec<Key>) -> Result<Vec<Changed>, HistoryError> {
        let mut changed = Vec::new();
        for key in keys {
            let entries = self.entries(&key, MOST_LOOKED_AT)?;
            let newest = entries.first();
            if newest.is_some_and(|entry| self.is_import(entry)) {
                continue;
            }
            changed.push(Changed {
                by: newest.map(by_whom),
                was: Was::There { written: self.written(&key)? },
                ..Changed::new(key, "not written last by an import")
            });
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
                    by: Some(by_whom(newest)),
                    was: Was::Deleted(self.versions(&key, newest)?.0),
                    ..Changed::new(key, "deleted since the last import")
                });
            }
        }
        Ok(deleted)
    }

    /// Those that an import wrote.
    fn left(&self, keys: Vec<Key>) -> Result<Vec<Key>, HistoryError> {
        let mut left = Vec::new();
        for key in keys {
            if self.was_imported(&key)? {
                left.push(key);
            }
        }
        Ok(left)
    }

    /// By the last import.
    fn written(&self, key: &Key) -> Result<Option<Arc<Value>>, HistoryError> {
        match self.entries(key, MOST_LOOKED_AT)?.iter().find(|entry| self.is_import(entry)) {
            Some(entry) => Ok(self.versions(key, entry)?.1),
            None => Ok(None),
        }
    }

    fn was_imported(&self, key: &Key) -> Result<bool, HistoryError> {
        Ok(self.entries(key, MOST_LOOKED_AT)?.iter().any(|entry| self.is_import(entry)))
    }
}

fn by_whom(entry: &Entry) -> String {
    let author = &entry.author;
    let name = author.name.as_deref().map(|name| format!(" by {name}")).unwrap_or_default();
    let address = author.address.map(|address| format!(" from {address}")).unwrap_or_default();
    format!("{}{name}{address} at {}, revision {}", author.request, time(entry.time_ms), entry.revision)
}
