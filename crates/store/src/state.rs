//! The objects of one revision, in memory.

use std::{collections::BTreeMap, sync::Arc};

use tidegate_model::{Kind, Object, Objects};

/// All objects as they were at one revision.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// 0 for the state before the first write.
    pub revision: u64,
    objects: BTreeMap<Kind, BTreeMap<Arc<str>, Object>>,
}

impl Objects for State {
    fn get(&self, kind: Kind, id: &str) -> Option<Object> {
        State::get(self, kind, id).cloned()
    }

    fn with_field(&self, name: &str) -> Vec<Object> {
        self.all().filter(|object| object.document.may_have(name)).cloned().collect()
    }

    fn of_kind(&self, kind: Kind) -> Vec<Object> {
        self.list(kind).cloned().collect()
    }
}

impl State {
    /// No objects, at this revision.
    pub fn at(revision: u64) -> Self {
        Self { revision, objects: BTreeMap::new() }
    }

    /// Fills up the nodes of the maps: objects that came in the order of their ids have left each half empty.
    pub(crate) fn pack(&mut self) {
        for objects in self.objects.values_mut() {
            *objects = std::mem::take(objects).into_iter().collect();
        }
    }

    /// The object, if there is one.
    pub fn get(&self, kind: Kind, id: &str) -> Option<&Object> {
        self.objects.get(&kind)?.get(id)
    }

    /// The objects of one kind, by id.
    pub fn list(&self, kind: Kind) -> impl Iterator<Item = &Object> {
        self.objects.get(&kind).into_iter().flat_map(|objects| objects.values())
    }

    /// All objects, kind by kind in the order of `Kind`.
    pub fn all(&self) -> impl Iterator<Item = &Object> {
        self.objects.values().flat_map(|objects| objects.values())
    }

    /// Stores an object and returns the one it replaces.
    pub fn put(&mut self, object: Object) -> Option<Object> {
        self.objects.entry(object.kind).or_default().insert(object.id.clone(), object)
    }

    /// Removes an object and returns it.
    pub fn remove(&mut self, kind: Kind, id: &str) -> Option<Object> {
        self.objects.get_mut(&kind)?.remove(id)
    }
}
