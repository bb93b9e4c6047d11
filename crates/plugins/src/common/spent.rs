//! Marks that serve once, or no more: nonces of signatures, states of logins, sessions that have ended.
//!
//! In memory, for all workers of this process. Each mark is kept until what it belongs to is refused anyway, and as a
//! hash: 16 bytes whatever a client sent, in a tree, where no marks can be made to meet. A full set says so, and never forgets one that still counts.

use std::collections::BTreeMap;

use aws_lc_rs::digest;
use parking_lot::Mutex;

/// Half of a SHA-256.
pub type Mark = [u8; 16];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    First,
    Again,
    /// It cannot be remembered.
    Full,
}

const SHARDS: usize = 16;

pub(crate) struct Spent {
    shards: [Mutex<Shard>; SHARDS],
    shard_capacity: usize,
}

struct Shard {
    /// Until when each counts, in milliseconds since 1970.
    marks: BTreeMap<Mark, i64>,
    /// No mark runs out before.
    next_end_ms: i64,
}

impl Shard {
    const EMPTY: Shard = Shard { marks: BTreeMap::new(), next_end_ms: i64::MAX };
}

/// Names texts by a hash; where one ends and the next begins counts.
pub fn mark(texts: &[&[u8]]) -> Mark {
    let mut context = digest::Context::new(&digest::SHA256);
    for text in texts {
        context.update(&(text.len() as u64).to_be_bytes());
        context.update(text);
    }
    let mut mark = Mark::default();
    for (to, from) in mark.iter_mut().zip(context.finish().as_ref()) {
        *to = *from;
    }
    mark
}

impl Spent {
    /// Keeps at most `capacity` marks.
    pub(crate) const fn new(capacity: usize) -> Spent {
        let shards = [const { Mutex::new(Shard::EMPTY) }; SHARDS];
        Spent { shards, shard_capacity: capacity / SHARDS }
    }

    fn shard(&self, mark: &Mark) -> &Mutex<Shard> {
        let [first, ..] = mark;
        &self.shards[usize::from(*first) % SHARDS]
    }

    /// Uses a mark, which counts until a moment.
    pub(crate) fn claim(&self, mark: Mark, until_ms: i64, now_ms: i64) -> Claim {
        let mut shard = self.shard(&mark).lock();
        if shard.marks.get(&mark).is_some_and(|until| *until > now_ms) {
            return Claim::Again;
        }
        if shard.marks.len() >= self.shard_capacity && shard.next_end_ms <= now_ms {
            shard.marks.retain(|_, until| *until > now_ms);
            shard.next_end_ms = shard.marks.values().copied().min().unwrap_or(i64::MAX);
        }
        if shard.marks.len() >= self.shard_capacity {
            return Claim::Full;
        }
        shard.next_end_ms = shard.next_end_ms.min(until_ms);
        shard.marks.insert(mark, until_ms);
        Claim::First
    }

    /// Whether the mark was used and has not expired.
    pub(crate) fn contains(&self, mark: &Mark, now_ms: i64) -> bool {
        self.shard(mark).lock().marks.get(mark).is_some_and(|until| *until > now_ms)
    }

    /// Lets a mark that still counts count until a later moment. `false`: it does not count.
    pub(crate) fn renew(&self, mark: &Mark, until_ms: i64, now_ms: i64) -> bool {
        let mut shard = self.shard(mark).lock();
        match shard.marks.get_mut(mark).filter(|until| **until > now_ms) {
            Some(until) => {
                *until = until_ms.max(*until);
                true
            }
            None => false,
        }
    }

    /// Gives a mark back that was claimed and not used after all.
    pub(crate) fn release(&self, mark: &Mark) {
        self.shard(mark).lock().marks.remove(mark);
    }

    /// Forgets all marks.
    pub(crate) fn clear(&self) {
        for shard in &self.shards {
            *shard.lock() = Shard::EMPTY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_serves_once_until_its_end() {
        let spent = Spent::new(1024);
        let nonce = mark(&[b"key", b"nonce"]);
        assert_eq!(spent.claim(nonce, 100, 0), Claim::First);
        assert_eq!(spent.claim(nonce, 200, 99), Claim::Again);
        assert!(spent.contains(&nonce, 99) && !spent.contains(&nonce, 100));
        assert_eq!(spent.claim(nonce, 200, 100), Claim::First);
        spent.release(&nonce);
        assert_eq!(spent.claim(nonce, 200, 100), Claim::First);
        assert_ne!(mark(&[b"ke", b"ynonce"]), nonce);
    }

    #[test]
    fn a_full_set_forgets_only_what_has_run_out() {
        let spent = Spent::new(64);
        let mut claims = (0..1000u32).map(|n| (mark(&[&n.to_be_bytes()]), n));
        let kept: Vec<_> = claims
            .by_ref()
            .filter(|(mark, n)| spent.claim(*mark, 100 + i64::from(*n), 0) == Claim::First)
            .collect();
        assert!(kept.len() <= 64, "{}", kept.len());
        assert!(kept.iter().all(|(mark, _)| spent.contains(mark, 99)));
        // All have run out: there is room again.
        let late = mark(&[b"late"]);
        assert_eq!(spent.claim(late, 9000, 5000), Claim::First);
    }
}
