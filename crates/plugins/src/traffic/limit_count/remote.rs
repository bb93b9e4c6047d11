//! Counters in Redis, under APISIX's keys. Every step is one script on one key: however many gateways and workers
//! share the counter, none admits a request too many.

use std::sync::LazyLock;

use tidegate_clients::redis::{Argument, Cmd, RedisClient, Script};

use super::counters::{Quota, Taken};
use crate::common::clock::unix_seconds;

/// Adds to a counter that lives for one window from its first request on. Answers what is counted and what is left
/// of the window in milliseconds.
static FIXED: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local left = redis.call('PTTL', KEYS[1])
if left < 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
  return {tonumber(ARGV[1]), ARGV[2] * 1000}
end
return {redis.call('INCRBY', KEYS[1], ARGV[1]), left}",
    )
});

/// Counts in the current one of the aligned windows if the quota allows; the window before no longer changes.
static SLIDING: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local cost, limit = tonumber(ARGV[1]), tonumber(ARGV[2])
local taken = tonumber(redis.call('GET', KEYS[1]) or 0)
if taken >= limit or tonumber(ARGV[3]) + taken >= limit then return {0, taken} end
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('SET', KEYS[1], cost, 'EX', ARGV[4])
  return {1, cost}
end
return {1, redis.call('INCRBY', KEYS[1], cost)}",
    )
});

/// Counts without asking: what has been let through must be written down.
static COMMIT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
if redis.call('PTTL', KEYS[1]) < 0 then
  redis.call('SET', KEYS[1], ARGV[1], 'EX', ARGV[2])
  return tonumber(ARGV[1])
end
return redis.call('INCRBY', KEYS[1], ARGV[1])",
    )
});

/// Where the aligned windows around now keep their counts.
struct Windows {
    current: Vec<u8>,
    previous: Vec<u8>,
    /// Seconds until the current one ends.
    left: f64,
}

impl Windows {
    fn around(now: f64, key: &[u8], window: f64) -> Windows {
        let number = (now / window).floor();
        let name = |number: f64| {
            let mut name = key.to_vec();
            name.extend_from_slice(format!(".{number}.counter").as_bytes());
            name
        };
        Windows { current: name(number), previous: name(number - 1.0), left: window - now % window }
    }
}

/// Takes `cost` from the quota of `key`.
pub(crate) async fn take(redis: &RedisClient, key: &[u8], quota: Quota, cost: f64) -> Result<Taken, String> {
    if !quota.sliding {
        let arguments = [Argument::Number(cost), Argument::Number(quota.window)];
        let (taken, left_ms): (f64, f64) = redis.eval(&FIXED, key, &arguments).await?;
        let remaining = quota.limit - taken;
        return Ok(Taken { allowed: remaining >= 0.0, remaining, reset_seconds: left_ms / 1000.0 });
    }
    let windows = Windows::around(unix_seconds(), key, quota.window);
    let previous = previous_count(redis, &windows, quota).await?;
    let arguments = [
        Argument::Number(cost),
        Argument::Number(quota.limit),
        Argument::Number(previous / quota.window * windows.left),
        Argument::Number(quota.window * 2.0),
    ];
    let (allowed, taken): (i64, f64) = redis.eval(&SLIDING, &windows.current, &arguments).await?;
    Ok(quota.sliding_result(allowed == 1, taken, previous, windows.left))
}

/// Writes down what a gateway has let through by itself; answers what is left for all.
pub(crate) async fn commit(
    redis: &RedisClient,
    key: &[u8],
    quota: Quota,
    cost: f64,
) -> Result<Taken, String> {
    if !quota.sliding {
        return take(redis, key, quota, cost).await;
    }
    let windows = Windows::around(unix_seconds(), key, quota.window);
    let arguments = [Argument::Number(cost), Argument::Number(quota.window * 2.0)];
    let taken: f64 = redis.eval(&COMMIT, &windows.current, &arguments).await?;
    // It is counted: a failure now must not make the caller count it again.
    let previous = previous_count(redis, &windows, quota).await.unwrap_or(0.0);
    Ok(quota.sliding_result(true, taken, previous, windows.left))
}

async fn previous_count(redis: &RedisClient, windows: &Windows, quota: Quota) -> Result<f64, String> {
    let mut command = Cmd::new();
    command.arg("GET").arg(&windows.previous);
    let count: Option<f64> = redis.command(&command).await?;
    Ok(count.unwrap_or(0.0).min(quota.limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_aligned() {
        let windows = Windows::around(125.0, b"plugin-limit-count:k", 60.0);
        assert_eq!(windows.current, b"plugin-limit-count:k.2.counter");
        assert_eq!(windows.previous, b"plugin-limit-count:k.1.counter");
        assert_eq!(windows.left, 55.0);
    }
}
