//! When which object ends that was written with a time to live.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tidegate_model::{Kind, Object};

pub(super) type Key = (Kind, Arc<str>);

/// When which object expires.
#[derive(Default)]
pub(crate) struct Expiries {
    by_time: BTreeSet<(u64, Key)>,
    pub by_key: HashMap<Key, u64>,
}

impl Expiries {
    pub(super) fn new(stored: Vec<(u64, Object)>) -> Self {
        let mut expiries = Self::default();
        for (at_ms, object) in stored {
            expiries.set((object.kind, object.id), Some(at_ms));
        }
        expiries
    }

    /// A later write without ttl keeps the object for good.
    pub(super) fn set(&mut self, key: Key, at_ms: Option<u64>) {
        if let Some(old) = self.by_key.remove(&key) {
            self.by_time.remove(&(old, key.clone()));
        }
        if let Some(at_ms) = at_ms {
            self.by_time.insert((at_ms, key.clone()));
            self.by_key.insert(key, at_ms);
        }
    }

    pub(super) fn wait(&self) -> Option<Duration> {
        let (at_ms, _) = self.by_time.first()?;
        Some(Duration::from_millis(at_ms.saturating_sub(now_ms())))
    }

    /// Returns each key once; that it had a time to live stays known until it is gone.
    pub(super) fn due(&mut self, now_ms: u64) -> Vec<Key> {
        let mut due = Vec::new();
        while self.by_time.first().is_some_and(|(at_ms, _)| *at_ms <= now_ms)
            && let Some((_, key)) = self.by_time.pop_first()
        {
            due.push(key);
        }
        due
    }
}

/// Wall-clock time: expiries outlive the process.
pub(super) fn now_ms() -> u64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}
