//! State by key that all workers share: sharded, each shard under a lock held for some ten nanoseconds, and bounded.

use std::hash::{BuildHasher, Hasher};

use ahash::RandomState;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

const SHARDS: usize = 64;
/// Keys per shard; 64 shards of it hold a million keys.
const SHARD_LIMIT: usize = 16 * 1024;

/// A value that may be forgotten once it says nothing any more.
pub trait Forgettable: Default {
    /// Whether the value is as good as a fresh one at `now` (seconds on the caller's clock).
    fn is_stale(&self, now: f64) -> bool;
}

pub struct Shards<V> {
    hasher: RandomState,
    shards: Box<[Mutex<FxHashMap<Box<[u8]>, V>>]>,
}

impl<V: Forgettable> Default for Shards<V> {
    fn default() -> Shards<V> {
        Shards { hasher: RandomState::new(), shards: (0..SHARDS).map(|_| Mutex::default()).collect() }
    }
}

impl<V: Forgettable> Shards<V> {
    fn shard(&self, key: &[u8]) -> &Mutex<FxHashMap<Box<[u8]>, V>> {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        &self.shards[hasher.finish() as usize % SHARDS]
    }

    /// Edits the value of `key`, made when missing. A full shard first forgets stale values, then any quarter.
    pub fn edit<R>(&self, key: &[u8], now: f64, edit: impl FnOnce(&mut V) -> R) -> R {
        let mut shard = self.shard(key).lock();
        if let Some(found) = shard.get_mut(key) {
            return edit(found);
        }
        if shard.len() >= SHARD_LIMIT {
            make_room(&mut shard, now);
        }
        let mut fresh = V::default();
        let result = edit(&mut fresh);
        shard.insert(key.into(), fresh);
        result
    }

    /// Edits the value of `key` if there is one.
    pub fn edit_existing<R>(&self, key: &[u8], edit: impl FnOnce(&mut V) -> R) -> Option<R> {
        self.shard(key).lock().get_mut(key).map(edit)
    }

    pub fn remove(&self, key: &[u8]) {
        self.shard(key).lock().remove(key);
    }

    /// Removes the value if `done` says so, after letting it change.
    pub fn edit_or_remove(&self, key: &[u8], done: impl FnOnce(&mut V) -> bool) {
        let mut shard = self.shard(key).lock();
        if shard.get_mut(key).is_some_and(done) {
            shard.remove(key);
        }
    }
}

fn make_room<V: Forgettable>(shard: &mut FxHashMap<Box<[u8]>, V>, now: f64) {
    shard.retain(|_, value| !value.is_stale(now));
    if shard.len() >= SHARD_LIMIT {
        let mut index = 0;
        shard.retain(|_, _| {
            index += 1;
            index % 4 != 0
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Until(f64);

    impl Forgettable for Until {
        fn is_stale(&self, now: f64) -> bool {
            self.0 <= now
        }
    }

    #[test]
    fn memory_is_bounded() {
        for (ends, expected) in [(50.0, 0), (200.0, SHARD_LIMIT - SHARD_LIMIT / 4)] {
            let mut shard = FxHashMap::default();
            for index in 0..SHARD_LIMIT as u32 {
                shard.insert(index.to_be_bytes().into(), Until(ends));
            }
            make_room(&mut shard, 100.0);
            assert_eq!(shard.len(), expected);
        }
    }

    #[test]
    fn values_last_until_removed() {
        let shards = Shards::<Until>::default();
        shards.edit(b"a", 0.0, |value| value.0 = 7.0);
        assert_eq!(shards.edit_existing(b"a", |value| value.0), Some(7.0));
        shards.edit_or_remove(b"a", |value| value.0 == 7.0);
        assert_eq!(shards.edit_existing(b"a", |value| value.0), None);
    }
}
