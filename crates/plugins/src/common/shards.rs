//! State by key that all workers share: sharded, each shard under a lock held for some ten nanoseconds.
//!
//! Clients choose the keys. So an entry takes the same few bytes whatever was sent ([`Key`]), a shard holds so many and no
//! more, and both the choice of a shard and the places in it depend on random numbers of the process: no keys can be
//! computed that meet in one place.

mod kept;
mod key;

use ahash::RandomState;
use hashbrown::HashTable;
use parking_lot::Mutex;

use kept::Kept;
pub use kept::{Usage, usage};
pub use key::Key;

const SHARDS: usize = 64;
/// Keys per shard: what a table of 16,384 places takes before it grows. 64 shards of it hold 917,504 keys.
const SHARD_LIMIT: usize = 14 * 1024;

/// A value that may be forgotten once it says nothing any more.
pub(crate) trait Forgettable: Default {
    /// Whether the value is as good as a fresh one at `now` (seconds on the caller's clock).
    fn is_stale(&self, now: f64) -> bool;

    /// Of values that are not stale, those for which this is least are forgotten first.
    fn worth(&self) -> f64;
}

type Table<V> = HashTable<(Key, V)>;

/// The bits of a hash from here on choose the shard. A table looks at the lowest, and at the highest seven.
const SHARD_BITS_FROM: u32 = 40;

pub(crate) struct Shards<V> {
    hasher: RandomState,
    shards: Box<[Mutex<Table<V>>]>,
    kept: &'static Kept,
}

impl<V: Forgettable> Shards<V> {
    /// `plugin`: for the metrics page and the log.
    pub(crate) fn new(plugin: &'static str) -> Shards<V> {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Shards { hasher: RandomState::new(), shards, kept: kept::of(plugin) }
    }

    /// The key's hash, and its shard.
    fn place(&self, key: &Key) -> (u64, &Mutex<Table<V>>) {
        let hash = self.hasher.hash_one(key);
        (hash, &self.shards[(hash >> SHARD_BITS_FROM) as usize % SHARDS])
    }

    /// Edits the value of `key`, made when missing. A full shard first forgets stale values, then the quarter that is
    /// worth least.
    pub(crate) fn edit<R>(&self, key: &Key, now: f64, edit: impl FnOnce(&mut V) -> R) -> R {
        let (hash, shard) = self.place(key);
        let mut shard = shard.lock();
        if let Some((_, found)) = shard.find_mut(hash, |(other, _)| other == key) {
            return edit(found);
        }
        if shard.len() >= SHARD_LIMIT {
            self.make_room(&mut shard, now);
        }
        let mut fresh = V::default();
        let result = edit(&mut fresh);
        shard.insert_unique(hash, (*key, fresh), |(key, _)| self.hasher.hash_one(key));
        self.kept.add();
        result
    }

    /// Edits the value of `key` if there is one.
    pub(crate) fn edit_existing<R>(&self, key: &Key, edit: impl FnOnce(&mut V) -> R) -> Option<R> {
        let (hash, shard) = self.place(key);
        shard.lock().find_mut(hash, |(other, _)| other == key).map(|(_, value)| edit(value))
    }

    /// Removes the value if `done` says so, after letting it change.
    pub(crate) fn edit_or_remove(&self, key: &Key, done: impl FnOnce(&mut V) -> bool) {
        let (hash, shard) = self.place(key);
        let mut shard = shard.lock();
        if let Ok(mut entry) = shard.find_entry(hash, |(other, _)| other == key)
            && done(&mut entry.get_mut().1)
        {
            entry.remove();
            self.kept.remove(1);
        }
    }

    #[cold]
    fn make_room(&self, shard: &mut Table<V>, now: f64) {
        let before = shard.len();
        shard.retain(|(_, value)| !value.is_stale(now));
        let fresh = shard.len();
        if fresh >= SHARD_LIMIT {
            forget_quarter(shard);
            self.kept.forget(fresh - shard.len());
        }
        self.kept.remove(before - shard.len());
    }
}

fn forget_quarter<V: Forgettable>(shard: &mut Table<V>) {
    let mut worths: Vec<f64> = shard.iter().map(|(_, value)| value.worth()).collect();
    let quarter = worths.len() / 4;
    if quarter == 0 {
        return shard.clear();
    }
    let (_, cut, _) = worths.select_nth_unstable_by(quarter, f64::total_cmp);
    let cut = *cut;
    // Many may be worth the same: a quarter goes, no more.
    let mut left = quarter;
    for strictly in [true, false] {
        shard.retain(|(_, value)| {
            let least = if strictly { value.worth() < cut } else { value.worth() <= cut };
            let goes = least && left > 0;
            left -= usize::from(goes);
            !goes
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

        fn worth(&self) -> f64 {
            self.0
        }
    }

    #[test]
    fn a_full_shard_forgets_what_is_worth_least() {
        let shards = Shards::<Until>::new("full");
        let key = |number: usize| Key::new(&number.to_be_bytes());
        let filled = |until: fn(usize) -> f64| {
            let mut shard = Table::new();
            for number in 0..SHARD_LIMIT {
                let (hash, _) = shards.place(&key(number));
                shard
                    .insert_unique(hash, (key(number), Until(until(number))), |(key, _)| shards.place(key).0);
            }
            shards.make_room(&mut shard, 100.0);
            shard
        };
        assert_eq!(filled(|_| 50.0).len(), 0, "all stale");
        assert_eq!(filled(|_| 200.0).len(), SHARD_LIMIT - SHARD_LIMIT / 4, "all alike");
        let left = filled(|number| 200.0 + number as f64);
        assert_eq!(left.len(), SHARD_LIMIT - SHARD_LIMIT / 4);
        let has = |number: usize| {
            left.find(shards.place(&key(number)).0, |(other, _)| *other == key(number)).is_some()
        };
        assert!((0..SHARD_LIMIT).all(|number| has(number) == (number >= SHARD_LIMIT / 4)));
    }

    #[test]
    fn values_last_until_removed() {
        let shards = Shards::<Until>::new("removed");
        let key = Key::new(b"a");
        shards.edit(&key, 0.0, |value| value.0 = 7.0);
        assert_eq!(shards.edit_existing(&key, |value| value.0), Some(7.0));
        shards.edit_or_remove(&key, |value| value.0 == 7.0);
        assert_eq!(shards.edit_existing(&key, |value| value.0), None);
    }
}
