//! Sessions in Redis, where one that has ended is gone for all gateways.

use std::time::Duration;

use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tidegate_clients::redis::{self, RedisClient};

use crate::authentication::openid_connect::conf::SessionConf;

pub(super) struct Database {
    client: RedisClient,
    prefix: String,
    /// Makes names of ids: an id is a cookie, and a reader of the names in Redis is not the user.
    names: hmac::Key,
}

impl Database {
    /// `None` where sessions are kept in cookies.
    pub(super) fn new(conf: &SessionConf, secret: &hmac::Key) -> Result<Option<Database>, String> {
        let Some(settings) = conf.redis.as_ref().filter(|_| conf.storage == "redis") else { return Ok(None) };
        let server_name = settings.get("server_name").and_then(Value::as_str).filter(|name| !name.is_empty());
        let client = RedisClient::single(&named(settings), server_name, response_time(settings))
            .map_err(|reason| format!("property \"session.redis\": {reason}"))?;
        let names = hmac::sign(secret, b"tidegate openid-connect names v1");
        Ok(Some(Database {
            client,
            prefix: settings.get("prefix").and_then(Value::as_str).unwrap_or("sessions").to_owned(),
            names: hmac::Key::new(hmac::HMAC_SHA256, names.as_ref()),
        }))
    }

    /// Under which key Redis has what belongs to an id.
    fn key(&self, id: &str) -> String {
        format!("{}:{}", self.prefix, HEXLOWER.encode(hmac::sign(&self.names, id.as_bytes()).as_ref()))
    }

    pub(super) async fn get(&self, id: &str) -> Result<Option<Vec<u8>>, String> {
        Ok(self.client.command(redis::cmd("GET").arg(self.key(id))).await?)
    }

    /// Keeps a session under an id that nothing is kept under.
    pub(super) async fn create(
        &self,
        id: &str,
        sealed: &str,
        lifetime_ms: Option<i64>,
    ) -> Result<(), String> {
        let done = self.set(id, sealed, "NX", lifetime_ms).await?;
        Ok(done.ok_or("a new session's id is taken")?)
    }

    /// `false`: the session has ended meanwhile, and stays gone. A request that was under way must not bring it back.
    pub(super) async fn replace(
        &self,
        id: &str,
        sealed: &str,
        lifetime_ms: Option<i64>,
    ) -> Result<bool, String> {
        Ok(self.set(id, sealed, "XX", lifetime_ms).await?.is_some())
    }

    async fn set(
        &self,
        id: &str,
        sealed: &str,
        condition: &str,
        lifetime_ms: Option<i64>,
    ) -> Result<Option<()>, String> {
        let mut set = redis::cmd("SET");
        set.arg(self.key(id)).arg(sealed).arg(condition);
        if let Some(lifetime) = lifetime_ms {
            set.arg("PX").arg(lifetime);
        }
        let done: Option<String> = self.client.command(&set).await?;
        Ok(done.map(|_| ()))
    }

    pub(super) async fn delete(&self, id: &str) -> Result<(), String> {
        Ok(self.client.command(redis::cmd("DEL").arg(self.key(id))).await?)
    }

    /// Uses the state of a login; `false`: its callback came before.
    pub(super) async fn claim_state(&self, state: &str, lifetime_ms: i64) -> Result<bool, String> {
        let done = self.set(&of_state(state), "1", "NX", Some(lifetime_ms.max(1))).await?;
        Ok(done.is_some())
    }

    pub(super) async fn release_state(&self, state: &str) {
        // Otherwise it runs out by itself.
        _ = self.delete(&of_state(state)).await;
    }
}

/// Ids of sessions have no colon.
fn of_state(state: &str) -> String {
    format!("state:{state}")
}

/// A command is sent, and its answer read.
fn response_time(settings: &Value) -> Duration {
    let of = |name: &str| settings.get(name).and_then(Value::as_u64).unwrap_or(1000);
    // What the schema lets in may be absurd.
    Duration::from_millis(of("send_timeout").saturating_add(of("read_timeout")).min(3_600_000))
}

/// The settings under the names that other plugins give them.
fn named(settings: &Value) -> Value {
    let of = |name: &str| settings.get(name).cloned().unwrap_or(Value::Null);
    let mut named = json!({
        "redis_host": of("host"),
        "redis_port": of("port"),
        "redis_database": of("database"),
        "redis_ssl": of("ssl"),
        "redis_ssl_verify": of("ssl_verify"),
        "redis_timeout": of("connect_timeout"),
        "redis_keepalive_timeout": of("keepalive_timeout"),
    });
    for (name, from) in [("redis_username", "username"), ("redis_password", "password")] {
        if let Some(value) = settings.get(from) {
            named[name] = value.clone();
        }
    }
    named
}
