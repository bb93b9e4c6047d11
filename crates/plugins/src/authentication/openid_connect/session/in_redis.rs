//! Sessions in Redis, where one that has ended is gone for all gateways.

use aws_lc_rs::hmac;
use data_encoding::HEXLOWER;
use serde_json::{Value, json};
use tidegate_clients::redis::{self, RedisClient};

use super::{LONGEST_LOGIN_MS, Session, Store};
use crate::authentication::openid_connect::{conf::SessionConf, ended, now_ms, random_token};

impl Store {
    /// The id of the session; `None` where it has ended meanwhile: a request that was under way must not bring it back.
    pub(super) async fn save_in_redis(
        &self,
        client: &RedisClient,
        prefix: &str,
        session: &mut Session,
    ) -> Result<Option<String>, String> {
        let set = |id: &str, sealed: &str, condition: &str| {
            let mut set = redis::cmd("SET");
            set.arg(self.key_in_redis(prefix, id)).arg(sealed).arg(condition);
            let limits = [self.idling_ms, self.rolling_ms, self.absolute_ms];
            if let Some(shortest) = limits.into_iter().filter(|limit| *limit > 0).min() {
                set.arg("PX").arg(shortest);
            }
            set
        };
        if let Some(id) = &session.id {
            let sealed = self.seal(session, id)?;
            let done: Option<String> = client.command(&set(id, &sealed, "XX")).await?;
            return Ok(done.map(|_| id.clone()));
        }
        let id = format!("{}{}", random_token(), random_token());
        let sealed = self.seal(session, &id)?;
        let done: Option<String> = client.command(&set(&id, &sealed, "NX")).await?;
        done.ok_or("a new session's id is taken")?;
        session.id = Some(id.clone());
        Ok(Some(id))
    }

    /// Under which key Redis has what belongs to an id.
    pub(super) fn key_in_redis(&self, prefix: &str, id: &str) -> String {
        format!("{prefix}:{}", HEXLOWER.encode(hmac::sign(&self.names, id.as_bytes()).as_ref()))
    }

    /// What a sealed session is authentic for.
    pub(super) fn place_of(&self, id: &str) -> Vec<u8> {
        [self.place.as_slice(), id.as_bytes()].concat()
    }

    /// Uses the state of a login; `false`: its callback came before.
    pub async fn claim(&self, state: &str, session: &Session) -> Result<bool, String> {
        let now = now_ms();
        let until = self.ends_ms(session, now).min(now.saturating_add(LONGEST_LOGIN_MS));
        let Some((client, prefix)) = &self.redis else { return ended::claim_state(state, until, now) };
        let mut set = redis::cmd("SET");
        set.arg(self.key_in_redis(prefix, &of_state(state)))
            .arg(1)
            .arg("NX")
            .arg("PX")
            .arg((until - now).max(1));
        let first: Option<String> = client.command(&set).await?;
        Ok(first.is_some())
    }

    /// Gives the state of a login back that came to nothing.
    pub async fn release(&self, state: &str) {
        let Some((client, prefix)) = &self.redis else { return ended::release_state(state) };
        let mut delete = redis::cmd("DEL");
        delete.arg(self.key_in_redis(prefix, &of_state(state)));
        // Otherwise it runs out by itself.
        let _ = client.command::<()>(&delete).await;
    }
}

/// Ids of sessions have no colon.
fn of_state(state: &str) -> String {
    format!("state:{state}")
}

pub(super) fn client(conf: &SessionConf) -> Result<Option<(RedisClient, String)>, String> {
    let Some(settings) = conf.redis.as_ref().filter(|_| conf.storage == "redis") else { return Ok(None) };
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
    let prefix = settings.get("prefix").and_then(Value::as_str).unwrap_or("sessions").to_owned();
    Ok(RedisClient::from_conf("redis", &named)?.map(|client| (client, prefix)))
}
