//! Things by name, in shards: a change copies a 256th, not everything.

use std::sync::Arc;

use ahash::RandomState;
use rustc_hash::FxHashMap;

const SHARDS: usize = 256;

/// A map from texts to shared things; clones share the shards in which nothing has changed since.
pub struct Sharded<T> {
    hasher: RandomState,
    shards: Vec<Arc<FxHashMap<Box<str>, Arc<T>>>>,
}

impl<T> Clone for Sharded<T> {
    fn clone(&self) -> Sharded<T> {
        Sharded { hasher: self.hasher.clone(), shards: self.shards.clone() }
    }
}

impl<T> Default for Sharded<T> {
    fn default() -> Sharded<T> {
        let empty = Arc::new(FxHashMap::default());
        Sharded { hasher: RandomState::new(), shards: vec![empty; SHARDS] }
    }
}

impl<T> Sharded<T> {
    #[inline]
    fn shard(&self, key: &str) -> usize {
        self.hasher.hash_one(key) as usize % SHARDS
    }

    /// What was put in under exactly this name.
    #[inline]
    pub fn find(&self, key: &str) -> Option<&Arc<T>> {
        self.shards.get(self.shard(key))?.get(key)
    }

    /// Replaces what had the name before.
    pub fn insert(&mut self, key: &str, thing: Arc<T>) {
        let shard = self.shard(key);
        Arc::make_mut(&mut self.shards[shard]).insert(key.into(), thing);
    }

    /// Takes the name away from what has it, if that is the right one.
    pub fn remove_if(&mut self, key: &str, is_it: impl FnOnce(&T) -> bool) {
        let shard = self.shard(key);
        if self.shards[shard].get(key).is_some_and(|thing| is_it(thing)) {
            Arc::make_mut(&mut self.shards[shard]).remove(key);
        }
    }

    /// All, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<T>> {
        self.shards.iter().flat_map(|shard| shard.values())
    }
}
