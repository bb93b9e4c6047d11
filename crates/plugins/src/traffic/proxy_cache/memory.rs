//! Answers in memory, shared by all workers. Reading takes a shared lock of one shard for the time of a look-up;
//! over its size a zone forgets what was not used for longest.

use std::{
    hash::{BuildHasher, Hasher},
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
};

use ahash::{AHashMap, RandomState};
use parking_lot::RwLock;

use super::entry::Stored;

const SHARDS: usize = 32;

struct Slot {
    stored: Stored,
    size: usize,
    used: AtomicU64,
}

type Shard = RwLock<AHashMap<Box<[u8]>, Slot>>;

pub(super) struct Memory {
    capacity: usize,
    hasher: RandomState,
    shards: Box<[Shard]>,
    bytes: AtomicUsize,
    /// Counts uses, as a clock for what was used when.
    clock: AtomicU64,
}

impl Memory {
    pub(super) fn new(capacity: usize) -> Memory {
        Memory {
            capacity,
            hasher: RandomState::new(),
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            bytes: AtomicUsize::new(0),
            clock: AtomicU64::new(0),
        }
    }

    pub(super) fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn free(&self) -> usize {
        self.capacity.saturating_sub(self.bytes.load(Ordering::Relaxed))
    }

    fn shard(&self, key: &[u8]) -> &Shard {
        let mut hasher = self.hasher.build_hasher();
        hasher.write(key);
        &self.shards[hasher.finish() as usize % SHARDS]
    }

    /// What is stored, fresh or not.
    pub(super) fn get(&self, key: &[u8]) -> Option<Stored> {
        let shard = self.shard(key).read();
        let slot = shard.get(key)?;
        slot.used.store(self.clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
        Some(slot.stored.clone())
    }

    /// `false` when it is too large for the zone.
    pub(super) fn put(&self, key: &[u8], stored: Stored) -> bool {
        let size = stored.size() + key.len() + 64;
        if size > self.capacity {
            return false;
        }
        let used = AtomicU64::new(self.clock.fetch_add(1, Ordering::Relaxed));
        let old = self.shard(key).write().insert(key.into(), Slot { stored, size, used });
        let old = old.map_or(0, |slot| slot.size);
        let bytes = self.bytes.fetch_add(size, Ordering::Relaxed) + size - old;
        self.bytes.fetch_sub(old, Ordering::Relaxed);
        if bytes > self.capacity {
            self.make_room();
        }
        true
    }

    pub(super) fn remove(&self, key: &[u8]) -> bool {
        let Some(slot) = self.shard(key).write().remove(key) else { return false };
        self.bytes.fetch_sub(slot.size, Ordering::Relaxed);
        true
    }

    /// Down to seven eighths, so that it does not happen at each answer.
    fn make_room(&self) {
        let mut slots: Vec<(u64, Box<[u8]>)> = Vec::new();
        for shard in &self.shards {
            let shard = shard.read();
            slots.extend(shard.iter().map(|(key, slot)| (slot.used.load(Ordering::Relaxed), key.clone())));
        }
        slots.sort_unstable();
        let goal = self.capacity / 8 * 7;
        for (_, key) in slots {
            if self.bytes.load(Ordering::Relaxed) <= goal {
                return;
            }
            self.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::proxy_cache::entry::CachedResponse;

    fn answer(bytes: usize) -> Stored {
        let body = vec![b'x'; bytes].into();
        Stored::CachedResponse(
            CachedResponse { status: 200, headers: Vec::new(), body, stored: 0.0, ttl: 1.0 }.into(),
        )
    }

    #[test]
    fn the_least_used_give_way() {
        let memory = Memory::new(10_000);
        for index in 0..8u8 {
            assert!(memory.put(&[index], answer(1000)));
            assert!(memory.get(&[0]).is_some());
        }
        assert!(memory.put(b"new", answer(1000)));
        assert!(memory.get(&[0]).is_some(), "the one in use stays");
        assert!(memory.get(&[1]).is_none(), "the oldest is gone");
        assert!(memory.bytes.load(Ordering::Relaxed) <= 10_000);
        assert!(!memory.put(b"huge", answer(20_000)));
    }

    #[test]
    fn replaced_answers_are_not_counted_twice() {
        let memory = Memory::new(100_000);
        for _ in 0..50 {
            memory.put(b"k", answer(1000));
        }
        assert!(memory.bytes.load(Ordering::Relaxed) < 2000);
        assert!(memory.remove(b"k"));
        assert_eq!(memory.bytes.load(Ordering::Relaxed), 0);
    }
}
