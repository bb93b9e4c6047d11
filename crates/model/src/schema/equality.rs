//! Equality of values, and lists in which no two are equal.

use std::{
    collections::{HashMap, hash_map::Entry},
    hash::{BuildHasher, Hash, Hasher, RandomState},
};

use serde_json::{Number, Value};

use super::budget::Depth;

/// Equality as Lua sees it: all numbers are floats, empty tables are equal, keys have no order.
pub(crate) fn equal(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Number(left), Value::Number(right)) => left.as_f64() == right.as_f64(),
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| equal(left, right))
        }
        (Value::Object(left), Value::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(name, left)| right.get(name).is_some_and(|right| equal(left, right)))
        }
        (Value::Array(_), Value::Object(_)) | (Value::Object(_), Value::Array(_)) => {
            is_empty_table(left) && is_empty_table(right)
        }
        _ => left == right,
    }
}

pub(super) fn is_empty_table(value: &Value) -> bool {
    match value {
        Value::Array(items) => items.is_empty(),
        Value::Object(entries) => entries.is_empty(),
        _ => false,
    }
}

/// Names the first pair of equal items. Scalars come before tables: with both kinds doubled, the scalars are reported.
///
/// Linear: items are found by their hashes, which are seeded, because clients choose the items.
pub(super) fn check_unique(items: &[Value], depth: Depth<'_>) -> Result<(), String> {
    let seed = RandomState::new();
    let mut seen: HashMap<u64, Vec<usize>, _> = HashMap::with_hasher(Prehashed);
    let mut doubled: [Option<(usize, usize)>; 2] = [None, None];
    for (position, item) in items.iter().enumerate() {
        let hash = hash(item, &seed, depth)?;
        let same_hash = match seen.entry(hash) {
            Entry::Vacant(slot) => {
                slot.insert(vec![position]);
                continue;
            }
            Entry::Occupied(slot) => slot.into_mut(),
        };
        let mut earlier = same_hash.iter().copied();
        match earlier.find(|&earlier| items.get(earlier).is_some_and(|earlier| equal(earlier, item))) {
            Some(first) => {
                let is_table = item.is_array() || item.is_object();
                let [scalars, tables] = &mut doubled;
                let pair = if is_table { tables } else { scalars };
                if pair.is_none_or(|(earliest, _)| first < earliest) {
                    *pair = Some((first, position));
                }
            }
            None => same_hash.push(position),
        }
    }
    let [scalars, tables] = doubled;
    match scalars.or(tables) {
        None => Ok(()),
        Some((first, second)) => {
            Err(format!("expected unique items but items {} and {} are equal", first + 1, second + 1))
        }
    }
}

/// Equal values have equal hashes.
fn hash(value: &Value, seed: &RandomState, depth: Depth<'_>) -> Result<u64, String> {
    depth.spend(1)?;
    Ok(match value {
        Value::Null => seed.hash_one(0_u8),
        Value::Bool(value) => seed.hash_one(value),
        Value::Number(number) => seed.hash_one(("number", bits(number))),
        Value::String(text) => {
            depth.spend_on_text(text)?;
            seed.hash_one(text)
        }
        _ if is_empty_table(value) => seed.hash_one("empty table"),
        Value::Array(items) => {
            let mut state = seed.build_hasher();
            for item in items {
                hash(item, seed, depth)?.hash(&mut state);
            }
            state.finish()
        }
        // A sum has no order.
        Value::Object(entries) => entries.iter().try_fold(0_u64, |sum, (name, entry)| {
            depth.spend_on_text(name)?;
            let entry = hash(entry, seed, depth)?;
            Ok::<_, String>(sum.wrapping_add(seed.hash_one((name, entry))))
        })?,
    })
}

/// `1`, `1.0` and `1e0` have the same bits, and so have both zeros.
fn bits(number: &Number) -> u64 {
    (number.as_f64().unwrap_or_default() + 0.0).to_bits()
}

/// For keys that are seeded hashes already.
struct Prehashed;

impl BuildHasher for Prehashed {
    type Hasher = AsIs;

    fn build_hasher(&self) -> AsIs {
        AsIs(0)
    }
}

struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}
