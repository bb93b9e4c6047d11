//! The leaky bucket. Amounts are thousandths of a request, as nginx counts them.

use std::sync::LazyLock;

use tidegate_clients::redis::{Argument, RedisClient, Script};
use tidegate_plugin_api::poll_clock;

use crate::common::{
    clock::{monotonic_seconds, unix_seconds},
    shards::{Forgettable, Key, Shards},
};

#[derive(Clone, Copy)]
pub(super) struct Bucket {
    /// Requests per second that leave it.
    pub rate: f64,
    /// Requests it holds.
    pub burst: f64,
}

#[derive(Debug, Default)]
struct Level {
    /// What was in the bucket after the last request; `None`: it is new.
    excess: Option<f64>,
    last_ms: f64,
    /// When it will have run dry.
    dry_seconds: f64,
}

impl Forgettable for Level {
    fn is_stale(&self, now: f64) -> bool {
        self.dry_seconds < now
    }

    fn worth(&self) -> f64 {
        self.dry_seconds
    }
}

pub(crate) struct Buckets(Shards<Level>);

impl Buckets {
    pub(super) fn global() -> &'static Buckets {
        static BUCKETS: LazyLock<Buckets> = LazyLock::new(|| Buckets(Shards::new("limit-req")));
        &BUCKETS
    }

    /// The seconds to wait, or `None` when the bucket would overflow.
    pub(super) fn take(&self, key: &[u8], bucket: Bucket) -> Option<f64> {
        let now = monotonic_seconds(poll_clock::now());
        self.0.edit(&Key::new(key), now, |level| take(level, bucket, now))
    }
}

fn take(level: &mut Level, bucket: Bucket, now: f64) -> Option<f64> {
    let (rate, burst) = (bucket.rate * 1000.0, bucket.burst * 1000.0);
    // Polls of other workers may have begun later.
    let now_ms = (now * 1000.0).floor().max(level.last_ms);
    // A new bucket takes its first request for nothing.
    let excess = match level.excess {
        Some(before) => (before - rate * (now_ms - level.last_ms) / 1000.0 + 1000.0).max(0.0),
        None => 0.0,
    };
    if excess > burst {
        return None;
    }
    *level = Level { excess: Some(excess), last_ms: now_ms, dry_seconds: now + (excess + 1000.0) / rate };
    Some(excess / rate)
}

/// One step on the server, so that gateways which share it never admit the same drop twice.
static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local rate, burst, now = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local level = redis.call('HMGET', KEYS[1], 'excess', 'last')
local excess = 0
if level[1] and level[2] then
  excess = tonumber(level[1]) - rate * math.abs(now - tonumber(level[2])) / 1000 + 1000
  if excess < 0 then excess = 0 end
  if excess > burst then return {0, tostring(excess)} end
end
redis.call('HSET', KEYS[1], 'excess', excess, 'last', now)
redis.call('EXPIRE', KEYS[1], ARGV[4])
return {1, tostring(excess)}",
    )
});

impl Bucket {
    /// As [`Buckets::take`], in Redis.
    pub(crate) async fn take_remote(self, redis: &RedisClient, key: &[u8]) -> Result<Option<f64>, String> {
        let (rate, burst) = (self.rate * 1000.0, self.burst * 1000.0);
        let arguments = [
            Argument::Number(rate),
            Argument::Number(burst),
            Argument::Number((unix_seconds() * 1000.0).floor()),
            // Until the bucket is dry: forgotten earlier, it would take its next request for nothing.
            Argument::Number(((burst + 1000.0) / rate).ceil() + 1.0),
        ];
        let (allowed, excess): (i64, String) = redis.eval(&SCRIPT, key, &arguments).await?;
        let excess: f64 = excess.parse().map_err(|_| format!("unexpected excess {excess}"))?;
        Ok((allowed == 1).then_some(excess / rate))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_waits_and_overflows() {
        let bucket = Bucket { rate: 2.0, burst: 1.0 };
        // (seconds, the wait or a refusal)
        let steps = [
            (100.0, Some(0.0)),
            (100.0, Some(0.5)),
            (100.0, None),
            (100.5, Some(0.5)),
            (101.5, Some(0.0)),
            (101.5, Some(0.5)),
        ];
        let mut level = Level::default();
        for (now, expected) in steps {
            assert_eq!(take(&mut level, bucket, now), expected, "at {now}");
        }
    }
}
