//! `sync_interval`: requests are judged by what this process knows, and what it let through is written to Redis at
//! intervals. So a request waits for Redis only when its key is new or its window over.
//!
//! A Redis that is away for a few intervals is bridged by counts of this process. After that each request asks it, and fails
//! as it would without `sync_interval`, unless `allow_degradation` wants the counts of this process to do.

use std::{
    collections::hash_map::Entry,
    sync::{
        Arc, Weak,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

use ahash::AHashMap;
use parking_lot::Mutex;
use tidegate_clients::redis::RedisClient;
use tidegate_telemetry::error_log;

use super::{
    counters::{Counters, Quota, Taken},
    remote,
};
use crate::common::{clock::monotonic_seconds, shards::Key};

/// Keys that are known at a time, over all configurations; some 200 bytes each.
const MAX_KEYS: usize = 200_000;
/// Bytes of keys that wait to be written, over all configurations: Redis gets them as they came.
const MAX_QUEUED_BYTES: usize = 16 << 20;
/// A full map is looked through for what is over no more often.
const SWEEP_SECONDS: f64 = 1.0;

/// Intervals without Redis before requests are refused.
const BRIDGED_INTERVALS: f64 = 3.0;

static KEYS: AtomicUsize = AtomicUsize::new(0);
static QUEUED_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Adds where it still fits.
fn reserve(sum: &AtomicUsize, more: usize, limit: usize) -> bool {
    let fits = |sum: usize| sum.checked_add(more).filter(|sum| *sum <= limit);
    sum.fetch_update(Relaxed, Relaxed, fits).is_ok()
}

/// What is known about one key.
#[derive(Default)]
struct Known {
    /// Let through here and not yet written.
    unwritten: f64,
    remaining: f64,
    /// When the window ends; `None` until Redis has been asked.
    ends: Option<f64>,
    quota: Option<Quota>,
    /// It waits to be written.
    queued: bool,
}

/// A key that waits to be written. Its bytes count as long as it lasts.
struct Queued(Box<[u8]>);

impl Queued {
    fn new(key: &[u8]) -> Option<Queued> {
        reserve(&QUEUED_BYTES, key.len(), MAX_QUEUED_BYTES).then(|| Queued(key.into()))
    }
}

impl Drop for Queued {
    fn drop(&mut self) {
        QUEUED_BYTES.fetch_sub(self.0.len(), Relaxed);
    }
}

pub(crate) struct Syncer {
    redis: RedisClient,
    interval: Duration,
    /// Whose quota it is: `routes/1`.
    owner: String,
    /// Counts of this process do, however long Redis is away.
    allow_degradation: bool,
    me: Weak<Syncer>,
    state: Mutex<State>,
    /// Since when Redis has failed: the bits of seconds, 0 while it answers.
    failing_since: AtomicU64,
}

#[derive(Default)]
struct State {
    known: AHashMap<Key, Arc<tokio::sync::Mutex<Known>>>,
    queued: Vec<Queued>,
    /// A task is on its way to write.
    running: bool,
    swept: f64,
}

impl Drop for State {
    fn drop(&mut self) {
        KEYS.fetch_sub(self.known.len(), Relaxed);
    }
}

impl State {
    /// `None`: too many are known.
    fn known(&mut self, key: Key, now: f64) -> Option<Arc<tokio::sync::Mutex<Known>>> {
        if let Some(known) = self.known.get(&key) {
            return Some(known.clone());
        }
        if !reserve(&KEYS, 1, MAX_KEYS) {
            self.sweep(now);
            if !reserve(&KEYS, 1, MAX_KEYS) {
                return None;
            }
        }
        match self.known.entry(key) {
            Entry::Occupied(entry) => Some(entry.get().clone()),
            Entry::Vacant(entry) => Some(entry.insert(Arc::default()).clone()),
        }
    }

    /// Forgets windows that are over, unless a write of them is pending.
    fn sweep(&mut self, now: f64) {
        if now - self.swept < SWEEP_SECONDS {
            return;
        }
        self.swept = now;
        let before = self.known.len();
        self.known
            .retain(|_, known| known.try_lock().map_or(true, |known| known.queued || known.ends > Some(now)));
        KEYS.fetch_sub(before - self.known.len(), Relaxed);
    }
}

fn now() -> f64 {
    monotonic_seconds(Instant::now())
}

impl Syncer {
    pub(super) fn new(
        redis: RedisClient,
        interval: f64,
        owner: String,
        allow_degradation: bool,
    ) -> Arc<Syncer> {
        let interval = Duration::try_from_secs_f64(interval).unwrap_or(Duration::from_secs(1));
        Arc::new_cyclic(|me| Syncer {
            redis,
            interval,
            owner,
            allow_degradation,
            me: me.clone(),
            state: Mutex::default(),
            failing_since: AtomicU64::new(0),
        })
    }

    pub(super) async fn take(&self, key: &[u8], quota: Quota, cost: f64) -> Result<Taken, String> {
        let Some(known) = self.known(key) else { return remote::take(&self.redis, key, quota, cost).await };
        let mut known = known.lock().await;
        known.quota = Some(quota);
        if known.ends.is_none_or(|ends| ends <= now()) || self.is_overdue() {
            let written = self.write(key, &mut known, quota).await;
            if self.is_overdue() {
                written?;
            }
        }
        let reset_seconds = (known.ends.unwrap_or(0.0) - now()).max(0.0);
        let remaining = known.remaining - known.unwritten - cost;
        let allowed = remaining >= 0.0;
        if allowed {
            known.unwritten += cost;
        }
        if !known.queued {
            match Queued::new(key) {
                Some(queued) => {
                    known.queued = true;
                    self.enqueue(queued);
                }
                // Too many wait: this one does not.
                None => {
                    let _ = self.write(key, &mut known, quota).await;
                }
            }
        }
        Ok(Taken { allowed, remaining, reset_seconds })
    }

    fn known(&self, key: &[u8]) -> Option<Arc<tokio::sync::Mutex<Known>>> {
        self.state.lock().known(Key::new(key), now())
    }

    /// Sends the unwritten count and learns what is left. Redis away: the process counts by itself, and the reason comes
    /// back.
    async fn write(&self, key: &[u8], known: &mut Known, quota: Quota) -> Result<(), String> {
        let unwritten = known.unwritten;
        let committed = remote::commit(&self.redis, key, quota, unwritten).await;
        self.note(committed.as_ref().err());
        let (taken, outcome) = match committed {
            Ok(taken) => (taken, Ok(())),
            Err(reason) => (Counters::global().take(key, quota, unwritten, now()), Err(reason)),
        };
        known.unwritten -= unwritten;
        known.remaining = if taken.allowed { taken.remaining } else { 0.0 };
        known.ends = Some(now() + taken.reset_seconds);
        outcome
    }

    /// One line when Redis goes away, and one when it is back.
    fn note(&self, failure: Option<&String>) {
        let owner = &self.owner;
        let Some(reason) = failure else {
            if self.failing_since.load(Relaxed) != 0 && self.failing_since.swap(0, Relaxed) != 0 {
                error_log::log(
                    error_log::Level::Warn,
                    format_args!("limit-count of {owner}: counts are written to Redis again"),
                );
            }
            return;
        };
        let since = now().to_bits().max(1);
        if self.failing_since.compare_exchange(0, since, Relaxed, Relaxed).is_err() {
            return;
        }
        let next = match self.allow_degradation {
            true => "as long as it fails (allow_degradation)".to_owned(),
            false => format!("for {} s; then requests are answered with 500", self.bridged_seconds()),
        };
        error_log::log(
            error_log::Level::Error,
            format_args!(
                "limit-count of {owner}: sync to redis failed: {reason}; counting in this process {next}"
            ),
        );
    }

    fn bridged_seconds(&self) -> f64 {
        self.interval.as_secs_f64() * BRIDGED_INTERVALS
    }

    /// Redis has failed for longer than counts of this process may stand in for its own.
    fn is_overdue(&self) -> bool {
        let since = self.failing_since.load(Relaxed);
        since != 0 && !self.allow_degradation && now() - f64::from_bits(since) > self.bridged_seconds()
    }

    /// Notes that the key has something to write, and starts the task that does so unless it runs.
    fn enqueue(&self, queued: Queued) {
        let mut state = self.state.lock();
        state.queued.push(queued);
        if state.running {
            return;
        }
        let Some(me) = self.me.upgrade() else { return };
        state.running = true;
        tokio::task::spawn_local(async move {
            tokio::time::sleep(me.interval).await;
            me.write_queued().await;
        });
    }

    async fn write_queued(&self) {
        let queued = {
            let mut state = self.state.lock();
            state.running = false;
            std::mem::take(&mut state.queued)
        };
        for Queued(key) in &queued {
            let Some(known) = self.known(key) else { continue };
            let mut known = known.lock().await;
            known.queued = false;
            if let Some(quota) = known.quota {
                let _ = self.write(key, &mut known, quota).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_bounded_over_all_configurations() {
        let key = |number: usize| Key::new(&number.to_be_bytes());
        let mut first = State::default();
        let mut second = State::default();
        second.swept = 100.0;
        let elsewhere = MAX_KEYS - 10;
        assert!(reserve(&KEYS, elsewhere, MAX_KEYS));
        for number in 0..10 {
            assert!(first.known(key(number), 100.0).is_some());
        }
        assert!(first.known(key(0), 100.0).is_some() && second.known(key(0), 100.0).is_none());
        for number in 0..3 {
            let known = first.known(key(number), 100.0).unwrap();
            let mut known = known.try_lock().unwrap();
            known.ends = Some(if number == 0 { 200.0 } else { 50.0 });
            known.queued = number == 1;
        }
        // The window of the first continues, the second waits to be written.
        assert!(first.known(key(10), 100.0).is_some());
        assert_eq!(first.known.len(), 3);
        drop(first);
        assert_eq!(KEYS.load(Relaxed), elsewhere);
        assert!(second.known(key(0), 100.0).is_some());
    }

    #[test]
    fn what_waits_is_bounded_in_bytes() {
        let key = vec![0; 1 << 20];
        let waiting: Vec<_> = (0..16).map(|_| Queued::new(&key).unwrap()).collect();
        assert!(Queued::new(b"k").is_none());
        drop(waiting);
        assert!(Queued::new(b"k").is_some());
    }
}
