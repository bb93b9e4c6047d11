//! A store without durability, for tests and for trying things out. Times to live are accepted, not obeyed.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tidegate_model::Object;
use tokio::sync::watch;

use crate::{BoxFuture, Change, Changes, Operation, State, Store, Users, Write, Written, error::StoreError};

/// Older changes are forgotten; a reader that needs them takes the whole state.
const REMEMBERED_CHANGES: usize = 4096;

/// Objects in memory alone, for tests.
pub struct Memory {
    inner: Mutex<Inner>,
    users: People,
    revision: watch::Sender<u64>,
}

#[derive(Default)]
struct People(Mutex<BTreeMap<String, Vec<u8>>>);

impl People {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Users for People {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        Ok(self.lock().get(name).cloned())
    }

    fn list(&self) -> Result<Vec<(String, Vec<u8>)>, StoreError> {
        Ok(self.lock().iter().map(|(name, record)| (name.clone(), record.clone())).collect())
    }

    fn put(&self, name: &str, record: &[u8]) -> Result<(), StoreError> {
        self.lock().insert(name.to_owned(), record.to_vec());
        Ok(())
    }

    fn delete(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.lock().remove(name).is_some())
    }
}

#[derive(Default)]
struct Inner {
    state: State,
    changes: VecDeque<(u64, Change)>,
    forgotten: u64,
}

impl Default for Memory {
    fn default() -> Self {
        Memory { inner: Mutex::default(), users: People::default(), revision: watch::Sender::new(0) }
    }
}

impl Memory {
    /// Without objects, at revision 0.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// A panic of another holder cannot leave half a write behind: writes work on a copy.
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, write: Write) -> Result<Written, StoreError> {
        let mut inner = self.lock();
        if write.at.is_some_and(|at| at != inner.state.revision) {
            return Err(StoreError::Conflict);
        }
        let mut state = inner.state.clone();
        let revision = state.revision + 1;
        let mut changes = Vec::new();
        let mut objects = Vec::new();
        let mut lease = None;
        for operation in write.operations {
            if ttl(&operation).is_some() {
                lease = Some(revision);
            }
            let (change, result) = apply_one(&mut state, revision, operation)?;
            changes.extend(change.map(|change| (revision, change)));
            objects.push(result);
        }
        if changes.is_empty() {
            return Ok(Written { revision: state.revision, objects, lease });
        }
        state.revision = revision;
        inner.state = state;
        inner.changes.extend(changes);
        while inner.changes.len() > REMEMBERED_CHANGES {
            inner.forgotten = inner.changes.pop_front().map_or(0, |(revision, _)| revision);
        }
        drop(inner);
        self.revision.send_replace(revision);
        Ok(Written { revision, objects, lease })
    }
}

fn ttl(operation: &Operation) -> Option<u64> {
    match operation {
        Operation::Put { ttl_seconds, .. } | Operation::Create { ttl_seconds, .. } => *ttl_seconds,
        Operation::Delete { .. } => None,
    }
}

/// The change to publish, and the object for the answer.
fn apply_one(
    state: &mut State,
    revision: u64,
    operation: Operation,
) -> Result<(Option<Change>, Option<Object>), StoreError> {
    let (kind, id, value, expected) = match operation {
        Operation::Put { kind, id, value, expected, .. } => (kind, id, value, expected),
        Operation::Create { kind, mut value, .. } => {
            let id = format!("{revision:020}");
            if let Some(fields) = value.as_object_mut() {
                fields.insert("id".into(), id.clone().into());
            }
            (kind, Arc::from(id), Arc::new(value), None)
        }
        Operation::Delete { kind, id, expected } => {
            check_expected(state.get(kind, &id), expected)?;
            let removed = state.remove(kind, &id);
            let change = removed.is_some().then_some(Change { kind, id, object: None });
            return Ok((change, removed));
        }
    };
    let previous = state.get(kind, &id);
    check_expected(previous, expected)?;
    let created = previous.map_or(revision, |object| object.created);
    let document = tidegate_model::Document::new(&value);
    let object =
        Object { kind, id: id.clone(), document, created, modified: revision, fault: None, unread: None };
    state.put(object.clone());
    Ok((Some(Change { kind, id, object: Some(object.clone()) }), Some(object)))
}

fn check_expected(current: Option<&Object>, expected: Option<u64>) -> Result<(), StoreError> {
    match expected {
        Some(expected) if expected != current.map_or(0, |object| object.modified) => {
            Err(StoreError::Conflict)
        }
        _ => Ok(()),
    }
}

impl Store for Memory {
    fn read(&self, read: &mut dyn FnMut(&State)) {
        read(&self.lock().state);
    }

    fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        Box::pin(async move { self.apply(write) })
    }

    fn users(&self) -> Option<&dyn Users> {
        Some(&self.users)
    }

    fn changes_since(&self, revision: u64) -> Changes {
        let inner = self.lock();
        if revision < inner.forgotten {
            return Changes::Reset;
        }
        let changes = inner.changes.iter().filter(|(of, _)| *of > revision);
        let changes = changes.map(|(_, change)| change.clone()).collect();
        Changes::Delta { revision: inner.state.revision, changes }
    }

    fn watch(&self) -> watch::Receiver<u64> {
        self.revision.subscribe()
    }

    fn is_writable(&self) -> bool {
        true
    }
}
