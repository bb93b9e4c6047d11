//! `sync_interval`: requests are judged by what this process knows, and what it let through is written to Redis at
//! intervals. So a request waits for Redis only when its key is new or its window over.
//!
//! What others let through is known only once they and this process have written. A window can therefore let through more than
//! its quota: at most the requests that arrive, at all gateways, within two intervals and the time of two writes. What comes
//! before the quota is spent is written one interval later, and known everywhere after another one.
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

impl Known {
    /// Whether Redis has to be asked before anything is decided.
    fn is_unknown(&self, now: f64) -> bool {
        self.ends.is_none_or(|ends| ends <= now)
    }

    /// Decides by what is known.
    fn take(&mut self, cost: f64, now: f64) -> Taken {
        let remaining = self.remaining - self.unwritten - cost;
        let allowed = remaining >= 0.0;
        if allowed {
            self.unwritten += cost;
        }
        Taken { allowed, remaining, reset_seconds: (self.ends.unwrap_or(0.0) - now).max(0.0) }
    }

    /// `written` of what was let through is counted, with this outcome.
    fn learn(&mut self, written: f64, counted: Taken, now: f64) {
        self.unwritten -= written;
        self.remaining = if counted.allowed { counted.remaining } else { 0.0 };
        self.ends = Some(now + counted.reset_seconds);
    }
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
        if known.is_unknown(now()) || self.is_overdue() {
            let written = self.write(key, &mut known, quota).await;
            if self.is_overdue() {
                written?;
            }
        }
        let taken = known.take(cost, now());
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
        Ok(taken)
    }

    fn known(&self, key: &[u8]) -> Option<Arc<tokio::sync::Mutex<Known>>> {
        self.state.lock().known(Key::new(key), now())
    }

    /// Sends the unwritten count and learns what is left. Redis away: the process counts by itself, and the reason comes
    /// back.
    async fn write(&self, key: &[u8], known: &mut Known, quota: Quota) -> Result<(), String> {
        let unwritten = known.unwritten;
        let committed = remote::commit(&self.redis, key, quota, unwritten).await;
        self.log_outage(committed.as_ref().err());
        let (taken, outcome) = match committed {
            Ok(taken) => (taken, Ok(())),
            Err(reason) => (Counters::global().take(key, quota, unwritten, now()), Err(reason)),
        };
        known.learn(unwritten, taken, now());
        outcome
    }

    /// One line when Redis goes away, and one when it is back.
    fn log_outage(&self, failure: Option<&String>) {
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

    /// Gateways and a Redis, in steps of a millisecond. Each gateway gets requests at an even distance, and writes `interval` after
    /// the first request since its last write. Returns how many are let through in a window, and how many arrive.
    fn let_through(
        gateways: u64,
        count: f64,
        distance: u64,
        interval: u64,
        window: u64,
        seed: u64,
    ) -> (u64, u64) {
        let mut all: Vec<(Known, Option<u64>)> = (0..gateways).map(|_| Default::default()).collect();
        let (mut counted, mut passed, mut arrived) = (0.0, 0, 0);
        for ms in 0..window {
            for (number, (known, due)) in (0..).zip(&mut all) {
                let now = ms as f64 / 1000.0;
                // As `remote::commit`: what was let through counts, also beyond the quota.
                let mut write = |known: &mut Known| {
                    let written = known.unwritten;
                    counted += written;
                    let remaining = count - counted;
                    let reset_seconds = window as f64 / 1000.0 - now;
                    known.learn(written, Taken { allowed: remaining >= 0.0, remaining, reset_seconds }, now);
                };
                if *due == Some(ms) {
                    *due = None;
                    write(known);
                }
                if !(ms + seed * (number + 1) * 7919).is_multiple_of(distance) {
                    continue;
                }
                arrived += 1;
                if known.is_unknown(now) {
                    write(known);
                }
                passed += u64::from(known.take(1.0, now).allowed);
                due.get_or_insert(ms + interval);
            }
        }
        (passed, arrived)
    }

    /// The bound that docs/plugins/limit-count.md states, for loads from half to 40 times the quota.
    #[test]
    fn a_window_lets_through_no_more_than_two_intervals_bring() {
        let (interval, window) = (1000, 10_000);
        let mut most = 0.0_f64;
        for gateways in [1, 2, 4, 16] {
            for distance in [1, 3, 10, 50, 200] {
                for part in [0.05, 0.5, 1.0, 2.0] {
                    for seed in 0..5 {
                        let offered = (gateways * window / distance) as f64;
                        let count = (offered * part / 2.0).ceil();
                        let (passed, arrived) =
                            let_through(gateways, count, distance, interval, window, seed);
                        let within = (gateways * (2 * interval / distance + 1)) as f64;
                        let case = format!("{gateways} gateways, {distance} ms, {count} of {arrived}");
                        assert!(passed as f64 <= count + within, "{case}: {passed} passed");
                        assert!(passed as f64 >= count.min(arrived as f64), "{case}: only {passed} passed");
                        most = most.max((passed as f64 - count) / within);
                        // One alone knows all of it.
                        assert!(gateways > 1 || passed as f64 <= count, "{case}: {passed} passed");
                    }
                }
            }
        }
        // The bound is not far from what happens.
        assert!(most > 0.4, "{most}");
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
