//! A key that a client chose, as the maps in memory hold it: 48 bytes, whatever was sent.

use std::{
    hash::{BuildHasher, Hash, Hasher, RandomState},
    sync::LazyLock,
};

const LENGTH: usize = 48;
/// What a key begins with: a number of the configuration that it is counted for.
const OWNER: usize = 8;
/// Keys up to this length are held unhashed: addresses, identifiers, names, behind the eight bytes of a scope.
const LONGEST: usize = LENGTH - 1;
/// In place of the length: what is held is a hash.
const HASHED: u8 = u8::MAX;

/// Equal for equal texts, and for no others that an attacker could find: of longer keys 128 bits are held, from SipHash
/// with keys that the process drew at random. They cannot be computed outside the process, and 2^64 keys never fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u8; LENGTH]);

impl Key {
    /// A hash with a random seed: the text itself is not kept.
    pub fn new(text: &[u8]) -> Key {
        let mut key = [0; LENGTH];
        let [held @ .., length] = &mut key;
        if let Some(held) = held.get_mut(..text.len()) {
            held.copy_from_slice(text);
            *length = text.len() as u8;
        } else {
            let owner = text.iter().copied().take(OWNER);
            let bytes = owner.chain(hash(text).to_ne_bytes());
            held.iter_mut().zip(bytes).for_each(|(held, byte)| *held = byte);
            *length = HASHED;
        }
        Key(key)
    }

    /// The configuration that the key is counted for, by the number that its text begins with.
    pub(super) fn owner(&self) -> u64 {
        self.0.first_chunk().map_or(0, |owner| u64::from_ne_bytes(*owner))
    }
}

const _: () = assert!(LONGEST < HASHED as usize);

fn hash(text: &[u8]) -> u128 {
    static HALVES: LazyLock<[RandomState; 2]> = LazyLock::new(Default::default);
    HALVES.iter().enumerate().fold(0, |sum, (number, half)| {
        let mut hasher = half.build_hasher();
        hasher.write_usize(number);
        hasher.write(text);
        sum << 64 | u128::from(hasher.finish())
    })
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Nothing but zeros follows.
        let [held @ .., length] = &self.0;
        state.write(held.get(..usize::from(*length)).unwrap_or(held));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_told_apart_by_all_their_bytes() {
        let mut keys = std::collections::HashSet::new();
        for length in [0, 1, LONGEST - 1, LONGEST, LONGEST + 1, 1000] {
            let text = vec![0; length];
            assert_eq!(Key::new(&text), Key::new(&text), "{length}");
            assert!(keys.insert(Key::new(&text)), "{length}");
            for at in 0..length {
                let mut other = text.clone();
                other[at] = 1;
                assert!(keys.insert(Key::new(&other)), "byte {at} of {length}");
            }
        }
        // What is held for a long text is not what a short one could be.
        let held = Key::new(&[0; 100]);
        assert_ne!(Key::new(&held.0[..LONGEST]), held);
    }
}
