//! Sessions of TLS that clients may resume.
//!
//! The library's own cache looks for what it forgets among all that it has: with 20,000 sessions a resumed handshake took
//! longer than a full one, under a lock that all workers share.

use std::{collections::hash_map::RandomState, hash::BuildHasher, mem};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use rustls::server::StoresServerSessions;

/// What all shards keep at most: of the two tickets of a handshake one is used as a rule.
const SESSIONS: usize = 20_000;
/// The same in bytes: a session with a client's certificates takes kilobytes.
const BYTES: usize = 32 << 20;
/// Workers that come at the same time rarely want the same one.
const SHARDS: usize = 16;
/// A half of a shard that has this much becomes the old one, and the old one goes.
const HALF: Amount = Amount { sessions: SESSIONS / SHARDS / 2, bytes: BYTES / SHARDS / 2 };

struct Amount {
    sessions: usize,
    bytes: usize,
}

/// Those that came last, and those before them.
#[derive(Default)]
struct Shard {
    young: FxHashMap<Vec<u8>, Vec<u8>>,
    young_bytes: usize,
    old: FxHashMap<Vec<u8>, Vec<u8>>,
}

impl Shard {
    fn put(&mut self, key: Vec<u8>, value: Vec<u8>) -> FxHashMap<Vec<u8>, Vec<u8>> {
        self.take(&key);
        self.young_bytes += key.len() + value.len();
        self.young.insert(key, value);
        if self.young.len() < HALF.sessions && self.young_bytes < HALF.bytes {
            return FxHashMap::default();
        }
        self.young_bytes = 0;
        mem::replace(&mut self.old, mem::take(&mut self.young))
    }

    fn take(&mut self, key: &[u8]) -> Option<Vec<u8>> {
        if let Some(value) = self.young.remove(key) {
            self.young_bytes -= key.len() + value.len();
            return Some(value);
        }
        self.old.remove(key)
    }
}

pub(super) struct SessionCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
}

impl SessionCache {
    pub(super) fn new() -> SessionCache {
        SessionCache { shards: Default::default(), hasher: RandomState::new() }
    }

    fn shard(&self, key: &[u8]) -> &Mutex<Shard> {
        &self.shards[self.hasher.hash_one(key) as usize % SHARDS]
    }
}

impl std::fmt::Debug for SessionCache {
    /// Secrets stay out of logs.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("SessionCache")
    }
}

/// Keys are random ones of the library. What clients ask for is looked up and never kept, so that they choose no keys.
impl StoresServerSessions for SessionCache {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        let gone = self.shard(&key).lock().put(key, value);
        // Outside of the lock.
        drop(gone);
        true
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        let shard = self.shard(key).lock();
        shard.young.get(key).or_else(|| shard.old.get(key)).cloned()
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.shard(key).lock().take(key)
    }

    fn can_cache(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: usize) -> Vec<u8> {
        format!("{number:032}").into_bytes()
    }

    fn held(cache: &SessionCache) -> (usize, usize) {
        let shards = cache.shards.iter().map(Mutex::lock);
        shards.fold((0, 0), |(count, bytes), shard| {
            let all = shard.young.iter().chain(&shard.old);
            let held = all.map(|(key, value)| key.len() + value.len()).sum::<usize>();
            (count + shard.young.len() + shard.old.len(), bytes + held)
        })
    }

    #[test]
    fn a_session_is_taken_once() {
        let cache = SessionCache::new();
        assert!(cache.put(key(1), b"one".to_vec()));
        assert_eq!(cache.get(&key(1)).as_deref(), Some(&b"one"[..]));
        assert_eq!(cache.take(&key(1)).as_deref(), Some(&b"one"[..]));
        assert_eq!((cache.take(&key(1)), cache.get(&key(1))), (None, None));
        // A resumed session of TLS 1.2 is kept again under its key.
        for value in [b"two".to_vec(), b"three".to_vec()] {
            cache.put(key(2), value);
        }
        assert_eq!(cache.take(&key(2)).as_deref(), Some(&b"three"[..]));
        assert_eq!(held(&cache), (0, 0));
    }

    #[test]
    fn the_oldest_go_first_in_number_and_in_bytes() {
        for (size, sessions) in [(100, SESSIONS), (10_000, BYTES / 10_032)] {
            let cache = SessionCache::new();
            for number in 0..3 * SESSIONS {
                cache.put(key(number), vec![0; size]);
            }
            let (count, bytes) = held(&cache);
            assert!(count <= sessions && count >= sessions / 3, "{size}: {count}");
            assert!(bytes <= BYTES, "{size}: {bytes}");
            assert!(cache.get(&key(3 * SESSIONS - 1)).is_some() && cache.get(&key(0)).is_none());
        }
    }
}
