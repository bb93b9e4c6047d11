//! `sync_interval`: requests are judged by what this process knows, and what it let through is written to Redis at
//! intervals. So a request waits for Redis only when its key is new or its window over.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use telemetry::error_log;

use super::{
    counters::{Counters, Quota, Taken},
    remote,
};
use crate::common::{clock::monotonic_seconds, redis_client::RedisClient};

/// Keys that wait to be written; the counts of others stay here until there is room.
const MAX_QUEUED: usize = 10_000;
/// Keys that are known at a time.
const MAX_KEYS: usize = 100_000;

/// What is known about one key.
#[derive(Default)]
struct Known {
    /// Let through here and not yet written.
    unwritten: f64,
    remaining: f64,
    /// When the window ends; `None` until Redis has been asked.
    ends: Option<f64>,
    quota: Option<Quota>,
}

type Key = Box<[u8]>;

pub struct Syncer {
    redis: RedisClient,
    interval: Duration,
    me: Weak<Syncer>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    known: FxHashMap<Key, Arc<tokio::sync::Mutex<Known>>>,
    queued: Vec<Key>,
    /// A task is on its way to write.
    running: bool,
}

fn now() -> f64 {
    monotonic_seconds(Instant::now())
}

impl Syncer {
    pub fn new(redis: RedisClient, interval: f64) -> Arc<Syncer> {
        let interval = Duration::try_from_secs_f64(interval).unwrap_or(Duration::from_secs(1));
        Arc::new_cyclic(|me| Syncer { redis, interval, me: me.clone(), state: Mutex::default() })
    }

    pub async fn take(&self, key: &[u8], quota: Quota, cost: f64) -> Result<Taken, String> {
        let known = self.known(key);
        let mut known = known.lock().await;
        known.quota = Some(quota);
        if known.ends.is_none_or(|ends| ends <= now()) {
            self.write(key, &mut known, quota).await;
        }
        self.enqueue(key);
        let reset_seconds = (known.ends.unwrap_or(0.0) - now()).max(0.0);
        let remaining = known.remaining - known.unwritten - cost;
        let allowed = remaining >= 0.0;
        if allowed {
            known.unwritten += cost;
        }
        Ok(Taken { allowed, remaining, reset_seconds })
    }

    fn known(&self, key: &[u8]) -> Arc<tokio::sync::Mutex<Known>> {
        let mut state = self.state.lock();
        if let Some(known) = state.known.get(key) {
            return known.clone();
        }
        if state.known.len() >= MAX_KEYS {
            let now = now();
            state.known.retain(|_, known| {
                known.try_lock().is_ok_and(|known| known.unwritten > 0.0 || known.ends > Some(now))
            });
            if state.known.len() >= MAX_KEYS {
                state.known.clear();
            }
        }
        state.known.entry(key.into()).or_default().clone()
    }

    /// Sends the unwritten count and learns what is left. Redis away: the process counts by itself.
    async fn write(&self, key: &[u8], known: &mut Known, quota: Quota) {
        let unwritten = known.unwritten;
        let taken = match remote::commit(&self.redis, key, quota, unwritten).await {
            Ok(taken) => taken,
            Err(reason) => {
                error_log::log(
                    error_log::Level::Error,
                    format_args!("sync to redis failed: {reason}, counting in this process meanwhile"),
                );
                Counters::global().take(key, quota, unwritten, now())
            }
        };
        known.unwritten -= unwritten;
        known.remaining = if taken.allowed { taken.remaining } else { 0.0 };
        known.ends = Some(now() + taken.reset_seconds);
    }

    /// Notes that the key has something to write, and sees to it that somebody does.
    fn enqueue(&self, key: &[u8]) {
        let mut state = self.state.lock();
        if state.queued.len() < MAX_QUEUED {
            state.queued.push(key.into());
        }
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
        let mut queued = {
            let mut state = self.state.lock();
            state.running = false;
            std::mem::take(&mut state.queued)
        };
        queued.sort_unstable();
        queued.dedup();
        for key in queued {
            let known = self.known(&key);
            let mut known = known.lock().await;
            if let Some(quota) = known.quota {
                self.write(&key, &mut known, quota).await;
            }
        }
    }
}
