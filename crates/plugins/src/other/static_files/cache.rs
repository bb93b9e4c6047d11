//! Open files by path, shared by the workers. A look-up holds the lock of one shard for a hash and a count.

use std::{
    collections::hash_map::Entry as Slot,
    sync::{Arc, Weak, atomic::Ordering},
    time::{Duration, Instant},
};

use ahash::RandomState;
use parking_lot::Mutex;
use serde::Deserialize;

use super::entry::{Entry, Representation};

const SHARDS: usize = 16;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct Conf {
    /// Paths kept at most.
    files: usize,
    /// Seconds after which a path without requests is forgotten.
    inactive: u64,
    /// Seconds until a file is looked at again.
    valid: f64,
    /// Files up to this size are kept in memory.
    pub small_file_bytes: u64,
}

type Map<V> = std::collections::HashMap<Box<[u8]>, V, RandomState>;

pub(super) struct Cache {
    shards: Vec<Mutex<Map<Arc<Entry>>>>,
    /// Files by their own name: several paths may lead to one (`try_files`), and it is opened once.
    files: Mutex<Map<Weak<Representation>>>,
    hasher: RandomState,
    capacity: usize,
    inactive_ms: u64,
    valid_ms: u64,
    started: Instant,
}

/// What a look-up finds.
pub(super) enum Found {
    Fresh(Arc<Entry>),
    /// Good enough for this request, but it should be revalidated.
    Aging(Arc<Entry>),
    Nothing,
}

impl Cache {
    pub(super) fn new(conf: &Conf) -> Cache {
        Cache {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            files: Mutex::default(),
            hasher: RandomState::new(),
            capacity: conf.files.div_ceil(SHARDS),
            inactive_ms: conf.inactive.saturating_mul(1000),
            valid_ms: (conf.valid * 1000.0) as u64,
            started: Instant::now(),
        }
    }

    pub(super) fn ms(&self, at: Instant) -> u64 {
        at.saturating_duration_since(self.started).as_millis() as u64
    }

    fn shard(&self, path: &[u8]) -> Option<&Mutex<Map<Arc<Entry>>>> {
        self.shards.get(self.hasher.hash_one(path) as usize % SHARDS)
    }

    /// For workers. An entry serves until it is `valid` old, and for as long again while it is looked at; older than
    /// that it is nothing.
    pub(super) fn get(&self, path: &[u8], now: Instant) -> Found {
        let Some(entry) = self.shard(path).and_then(|shard| shard.lock().get(path).cloned()) else {
            return Found::Nothing;
        };
        let now_ms = self.ms(now);
        if entry.used_ms.load(Ordering::Relaxed) != now_ms {
            entry.used_ms.store(now_ms, Ordering::Relaxed);
        }
        let age_ms = now_ms.saturating_sub(entry.checked_ms.load(Ordering::Relaxed));
        if age_ms < self.valid_ms {
            Found::Fresh(entry)
        } else if age_ms < self.valid_ms * 2 {
            match entry.refreshing.swap(true, Ordering::Relaxed) {
                true => Found::Fresh(entry),
                false => Found::Aging(entry),
            }
        } else {
            Found::Nothing
        }
    }

    /// For the disk threads: an entry that another of them has just made.
    pub(crate) fn just_made(&self, path: &[u8], since_ms: u64) -> Option<Arc<Entry>> {
        let entry = self.shard(path)?.lock().get(path).cloned()?;
        (entry.checked_ms.load(Ordering::Relaxed) >= since_ms && self.valid_ms > 0).then_some(entry)
    }

    pub(super) fn put(&self, path: &[u8], entry: Arc<Entry>) {
        let Some(shard) = self.shard(path) else { return };
        if self.capacity == 0 {
            return;
        }
        let mut dropped = Vec::new();
        {
            let mut shard = shard.lock();
            if shard.len() >= self.capacity && !shard.contains_key(path) {
                evict(&mut shard, &mut dropped);
            }
            dropped.extend(shard.insert(path.into(), entry));
        }
        // Files are closed after the lock is free.
        drop(dropped);
    }

    pub(super) fn forget(&self, path: &[u8]) {
        let old = self.shard(path).and_then(|shard| shard.lock().remove(path));
        drop(old);
    }

    /// The open file of that name, if one is still held.
    pub(super) fn open_file(&self, name: &[u8]) -> Option<Arc<Representation>> {
        self.files.lock().get(name)?.upgrade()
    }

    pub(crate) fn note_file(&self, name: &[u8], file: &Arc<Representation>) {
        let mut files = self.files.lock();
        match files.entry(name.into()) {
            Slot::Occupied(mut slot) => {
                slot.insert(Arc::downgrade(file));
            }
            Slot::Vacant(slot) => {
                slot.insert(Arc::downgrade(file));
            }
        }
        if files.len() > (self.capacity + 1) * SHARDS * 8 {
            files.retain(|_, file| file.strong_count() > 0);
        }
    }

    /// Forgets paths without recent requests.
    fn sweep(&self) {
        let now_ms = self.ms(Instant::now());
        for shard in &self.shards {
            let mut dropped = Vec::new();
            shard.lock().retain(|_, entry| {
                let idle_ms = now_ms.saturating_sub(entry.used_ms.load(Ordering::Relaxed));
                let keep = idle_ms < self.inactive_ms;
                if !keep {
                    dropped.push(entry.clone());
                }
                keep
            });
            drop(dropped);
        }
        self.files.lock().retain(|_, file| file.strong_count() > 0);
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().len()).sum()
    }
}

/// The eighth part that was used longest ago goes, so that making room is rare.
fn evict(shard: &mut Map<Arc<Entry>>, dropped: &mut Vec<Arc<Entry>>) {
    let mut times: Vec<u64> = shard.values().map(|entry| entry.used_ms.load(Ordering::Relaxed)).collect();
    let count = times.len().div_ceil(8);
    times.sort_unstable();
    let limit = times.get(count - 1).copied().unwrap_or(u64::MAX);
    let mut left = count;
    shard.retain(|_, entry| {
        let goes = left > 0 && entry.used_ms.load(Ordering::Relaxed) <= limit;
        if goes {
            left -= 1;
            dropped.push(entry.clone());
        }
        !goes
    });
}

/// Sweeps until the cache is gone. On the control runtime.
pub(crate) fn look_after(cache: &Arc<Cache>) {
    let Some(host) = tidegate_plugin_api::host() else { return };
    let every = Duration::from_millis((cache.inactive_ms / 2).clamp(500, 60_000));
    let cache = Arc::downgrade(cache);
    host.background.spawn(async move {
        loop {
            tokio::time::sleep(every).await;
            let Some(cache) = cache.upgrade() else { return };
            // Closing files may wait for a disk. A full queue leaves it for the next round.
            let _ = tidegate_plugin_api::disk::enqueue(Box::new(move || cache.sweep()));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::other::static_files::entry::FileLookup;

    fn cache(files: usize, valid: f64) -> Cache {
        Cache::new(&Conf { files, inactive: 60, valid, small_file_bytes: 0 })
    }

    fn entry(now_ms: u64) -> Arc<Entry> {
        Arc::new(Entry::new(FileLookup::Redirect, now_ms))
    }

    #[test]
    fn entries_age() {
        let cache = cache(100, 1.0);
        cache.put(b"a", entry(0));
        let at = |ms| cache.get(b"a", cache.started + Duration::from_millis(ms));
        assert!(matches!(at(0), Found::Fresh(_)));
        assert!(matches!(at(999), Found::Fresh(_)));
        assert!(matches!(at(1000), Found::Aging(_)));
        assert!(matches!(at(1500), Found::Fresh(_)), "somebody looks already");
        assert!(matches!(at(2000), Found::Nothing));
        assert!(matches!(cache.get(b"b", cache.started), Found::Nothing));
        cache.forget(b"a");
        assert!(matches!(at(0), Found::Nothing));
    }

    #[test]
    fn the_number_of_entries_is_bounded_and_the_oldest_go() {
        let cache = cache(160, 1.0);
        for number in 0..1000u64 {
            cache.put(format!("{number}").as_bytes(), entry(number));
            assert!(cache.len() <= 160);
        }
        assert!(matches!(cache.get(b"999", cache.started + Duration::from_millis(999)), Found::Fresh(_)));
        assert!(matches!(cache.get(b"0", cache.started), Found::Nothing));
    }

    #[test]
    fn without_a_cache_nothing_is_kept() {
        let none = cache(0, 1.0);
        none.put(b"a", entry(0));
        assert_eq!(none.len(), 0);
        let never_valid = cache(10, 0.0);
        never_valid.put(b"a", entry(0));
        assert!(matches!(never_valid.get(b"a", never_valid.started), Found::Nothing));
        assert!(never_valid.just_made(b"a", 0).is_none());
    }
}
