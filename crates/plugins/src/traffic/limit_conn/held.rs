//! The places that requests under way hold, given back when the request is over however it ends.

use std::sync::LazyLock;

use smallvec::SmallVec;
use tidegate_clients::redis::{Argument, Cmd, RedisClient, Script};
use tidegate_model::random::random_u64;
use tidegate_plugin_api::{Request, Session};
use tidegate_telemetry::error_log;

use crate::common::{
    clock::unix_seconds,
    shards::{Forgettable, Key, Shards},
};

#[derive(Default)]
struct Count(u64);

impl Forgettable for Count {
    fn is_stale(&self, _: f64) -> bool {
        self.0 == 0
    }

    fn worth(&self) -> f64 {
        self.0 as f64
    }
}

/// The places of this process.
pub(crate) struct Places(Shards<Count>);

impl Places {
    pub(crate) fn global() -> &'static Places {
        static PLACES: LazyLock<Places> = LazyLock::new(|| Places(Shards::new("limit-conn")));
        &PLACES
    }

    /// How many requests are under way with this one, or `None` if that is more than `limit`.
    pub(super) fn take(&'static self, request: &mut Request, key: &[u8], limit: f64) -> Option<f64> {
        let key = Key::new(key);
        let count = self.enter(&key, limit)?;
        hold(request, HeldSlot::Local { places: self, key });
        Some(count)
    }

    /// The same for a session, until it ends.
    pub(crate) fn take_for_session(
        &'static self,
        session: &mut Session,
        key: &[u8],
        limit: f64,
    ) -> Option<f64> {
        let key = Key::new(key);
        let count = self.enter(&key, limit)?;
        let place = HeldSlot::Local { places: self, key };
        session.extensions.get_or_insert_with(Held::default).0.push(place);
        Some(count)
    }

    fn enter(&self, key: &Key, limit: f64) -> Option<f64> {
        self.0.edit(key, 0.0, |count| {
            let with_this = (count.0 + 1) as f64;
            (with_this <= limit).then(|| {
                count.0 += 1;
                with_this
            })
        })
    }

    fn leave(&self, key: &Key) {
        self.0.edit_or_remove(key, |count| {
            count.0 = count.0.saturating_sub(1);
            count.0 == 0
        });
    }
}

/// What a request or session holds.
#[derive(Default)]
pub(crate) struct Held(SmallVec<[HeldSlot; 1]>);

enum HeldSlot {
    Local { places: &'static Places, key: Key },
    Remote { redis: RedisClient, key: Box<[u8]>, member: Box<str> },
}

fn hold(request: &mut Request, place: HeldSlot) {
    request.extensions.get_or_insert_with(Held::default).0.push(place);
}

impl Drop for HeldSlot {
    fn drop(&mut self) {
        match self {
            HeldSlot::Local { places, key } => places.leave(key),
            HeldSlot::Remote { redis, key, member } => {
                // No request waits for it. Without a runtime the process ends, and the place expires by itself.
                if tokio::runtime::Handle::try_current().is_err() {
                    return;
                }
                let (redis, key, member) = (redis.clone(), std::mem::take(key), std::mem::take(member));
                tokio::task::spawn_local(async move {
                    let mut command = Cmd::new();
                    command.arg("ZREM").arg(&*key).arg(&*member);
                    if let Err(reason) = redis.command::<i64>(&command).await {
                        error_log::log(
                            error_log::Level::Error,
                            format_args!("failed to record the connection leaving request: {reason}"),
                        );
                    }
                });
            }
        }
    }
}

/// A place is a member of a sorted set, scored by when it expires: requests of a gateway that died free theirs then.
static SCRIPT: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        r"
local now, ttl = tonumber(ARGV[3]), tonumber(ARGV[2])
redis.call('ZREMRANGEBYSCORE', KEYS[1], 0, now)
local count = redis.call('ZCARD', KEYS[1])
if count >= tonumber(ARGV[1]) then return {0, count} end
redis.call('ZADD', KEYS[1], now + ttl, ARGV[4])
redis.call('EXPIRE', KEYS[1], ttl)
return {1, count + 1}",
    )
});

/// As [`Places::take`], in Redis.
pub(crate) async fn take_remote(
    request: &mut Request,
    redis: &RedisClient,
    key: &[u8],
    limit: f64,
    ttl_seconds: f64,
) -> Result<Option<f64>, String> {
    // Not the request's id: a plugin may let clients choose it, and equal members would share a place.
    let (high, low) = (random_u64(), random_u64());
    let member: Box<str> = format!("{high:016x}{low:016x}").into();
    let arguments = [
        Argument::Number(limit),
        Argument::Number(ttl_seconds),
        Argument::Number(unix_seconds().floor()),
        Argument::Text(member.as_bytes()),
    ];
    let (allowed, count): (i64, f64) = redis.eval(&SCRIPT, key, &arguments).await?;
    if allowed != 1 {
        return Ok(None);
    }
    hold(request, HeldSlot::Remote { redis: redis.clone(), key: key.into(), member });
    Ok(Some(count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_come_back() {
        let (key, other) = (Key::new(b"k"), Key::new(b"other"));
        let places = Places(Shards::new("test"));
        assert_eq!(places.enter(&key, 2.0), Some(1.0));
        assert_eq!(places.enter(&key, 2.0), Some(2.0));
        assert_eq!(places.enter(&key, 2.0), None);
        places.leave(&key);
        assert_eq!(places.enter(&key, 2.0), Some(2.0));
        assert_eq!(places.enter(&other, 2.0), Some(1.0));
    }
}
