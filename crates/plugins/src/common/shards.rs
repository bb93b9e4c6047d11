//! State by key that all workers share: sharded, each shard under a lock held for some ten nanoseconds.
//!
//! Clients choose the keys. So an entry takes the same few bytes whatever was sent ([`Key`]), a shard holds so many and no
//! more, and both the choice of a shard and the places in it depend on random numbers of the process: no keys can be
//! computed that meet in one place.

mod kept;
mod key;

use std::cmp::Reverse;

use ahash::RandomState;
use hashbrown::{HashMap, HashSet, HashTable};
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

    /// Edits the value of `key`, made when missing. A full shard first forgets stale values, then a quarter: of
    /// the configurations with the most keys what is worth least.
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

/// Configurations with the most keys give way: one route's clients must not have another route's counts forgotten.
fn forget_quarter<V: Forgettable>(shard: &mut Table<V>) {
    let quarter = shard.len() / 4;
    if quarter == 0 {
        return shard.clear();
    }
    let owners = largest(shard, quarter);
    let gives_way = |key: &Key| owners.contains(&key.owner());
    let theirs = shard.iter().filter(|(key, _)| gives_way(key));
    let mut worths: Vec<f64> = theirs.map(|(_, value)| value.worth()).collect();
    let Some(last) = quarter.checked_sub(1).filter(|last| *last < worths.len()) else { return };
    let (_, cut, _) = worths.select_nth_unstable_by(last, f64::total_cmp);
    let cut = *cut;
    // Many may be worth the same: a quarter goes, no more.
    let mut left = quarter;
    for strictly in [true, false] {
        shard.retain(|(key, value)| {
            let least = if strictly { value.worth() < cut } else { value.worth() <= cut };
            let goes = least && left > 0 && gives_way(key);
            left -= usize::from(goes);
            !goes
        });
    }
}

/// The owners with the most keys, who have `wanted` together, and those with as many as the last of them.
fn largest<V>(shard: &Table<V>, wanted: usize) -> HashSet<u64, RandomState> {
    let mut counts: HashMap<u64, usize, RandomState> = HashMap::default();
    shard.iter().for_each(|(key, _)| *counts.entry(key.owner()).or_default() += 1);
    let mut sorted: Vec<usize> = counts.values().copied().collect();
    sorted.sort_unstable_by_key(|count| Reverse(*count));
    let mut sum = 0;
    let reaches = |count: &usize| {
        sum += count;
        sum >= wanted
    };
    let least = sorted.into_iter().find(reaches).unwrap_or_default();
    counts.into_iter().filter(|(_, count)| *count >= least).map(|(owner, _)| owner).collect()
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
    fn who_fills_a_shard_gives_way() {
        let shards = Shards::<Until>::new("owners");
        let mut shard = Table::new();
        let mut fill = |owner: u64, count: usize, until: f64| {
            for number in 0..count {
                let mut text = owner.to_ne_bytes().to_vec();
                // Long keys are distinguished by owner, too.
                text.resize(8 + number % 2 * 80, b'x');
                text.extend_from_slice(&number.to_be_bytes());
                let key = Key::new(&text);
                let (hash, _) = shards.place(&key);
                shard.insert_unique(hash, (key, Until(until)), |(key, _)| shards.place(key).0);
            }
        };
        fill(1, 100, 150.0);
        let floods = 6;
        (0..floods).for_each(|flood| fill(2 + flood, (SHARD_LIMIT - 100) / 6 + 1, 900.0));
        let before = shard.len();
        shards.make_room(&mut shard, 100.0);
        assert_eq!(before - shard.len(), before / 4);
        assert_eq!(shard.iter().filter(|(key, _)| key.owner() == 1).count(), 100);
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
