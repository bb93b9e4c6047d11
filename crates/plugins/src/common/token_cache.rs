//! Tokens whose signature has been checked, per worker. Checking costs a microsecond (HMAC, and reading the JSON) to 100
//! (public keys); a client sends the same token until it expires. Claims are looked at each time; a replaced key makes the entry useless.

use std::{
    cell::RefCell,
    rc::Rc,
    sync::atomic::{AtomicU64, Ordering},
};

use ahash::AHashMap;
use serde_json::Value;
use tidegate_clients::jws::Algorithm;

/// A token whose signature was verified.
pub struct Verified {
    pub(crate) payload: Value,
    pub(crate) algorithm: Algorithm,
    /// Of the key that checked the signature.
    pub(crate) key_serial: u64,
}

/// Names a key, or a set of keys, within the process; never reused.
pub fn next_serial() -> u64 {
    static SERIALS: AtomicU64 = AtomicU64::new(1);
    SERIALS.fetch_add(1, Ordering::Relaxed)
}

/// Tokens per generation; there are two.
const GENERATION: usize = 1024;
/// Longer tokens are checked each time: 2 * 1024 * 4 KiB is the most this takes per worker, payloads aside.
const LONGEST_TOKEN_BYTES: usize = 4096;

/// Entries move to `young` when used; when `young` is full it becomes `old` and unused entries are gone.
#[derive(Default)]
struct Cache {
    young: AHashMap<Box<[u8]>, Rc<Verified>>,
    old: AHashMap<Box<[u8]>, Rc<Verified>>,
}

thread_local! {
    static CACHE: RefCell<Cache> = RefCell::default();
}

impl Cache {
    fn get(&mut self, token: &[u8]) -> Option<Rc<Verified>> {
        if let Some(known) = self.young.get(token) {
            return Some(known.clone());
        }
        let (token, known) = self.old.remove_entry(token)?;
        self.insert(token, known.clone());
        Some(known)
    }

    fn insert(&mut self, token: Box<[u8]>, verified: Rc<Verified>) {
        if self.young.len() >= GENERATION {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(token, verified);
    }
}

/// Of this worker; `None`: not seen, or evicted.
pub fn get(token: &[u8]) -> Option<Rc<Verified>> {
    if token.len() > LONGEST_TOKEN_BYTES {
        return None;
    }
    CACHE.with_borrow_mut(|cache| cache.get(token))
}

pub(crate) fn put(token: Vec<u8>, verified: &Rc<Verified>) {
    if token.len() > LONGEST_TOKEN_BYTES {
        return;
    }
    CACHE.with_borrow_mut(|cache| {
        let known = cache.young.get(token.as_slice());
        if known.is_none_or(|known| !Rc::ptr_eq(known, verified)) {
            cache.insert(token.into(), verified.clone());
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_rest_goes() {
        let mut cache = Cache::default();
        let verified = Rc::new(Verified { payload: Value::Null, algorithm: Algorithm::Hs256, key_serial: 1 });
        let token = |number: usize| number.to_be_bytes().to_vec().into_boxed_slice();
        for number in 0..10 * GENERATION {
            cache.insert(token(number), verified.clone());
            assert!(cache.get(&token(0)).is_some(), "used each time");
        }
        assert!(cache.get(&token(1)).is_none());
        assert!(cache.young.len() + cache.old.len() <= 2 * GENERATION);
    }
}
