//! Browser sessions: sealed with AES-256-GCM under the configured secret, kept in cookies or in Redis. Redis gets a session
//! when its user has logged in: until then the browser keeps it, or any client could fill Redis with logins that never
//! end.
//!
//! The format is Tidegate's own: sessions of APISIX (lua-resty-session) are not readable, users log in again.

mod contents;
mod in_redis;

use aws_lc_rs::hmac;
use tidegate_plugin_api::Request;

pub(super) use contents::{Identity, Login, Session};

use self::{contents::LONGEST_LOGIN_MS, in_redis::Database};
use super::{conf::SessionConf, ended};
use crate::common::{
    clock::now_ms,
    cookies::{COOKIE_BYTES, Cookie},
    random_token::random_token,
    sealed::SealingKey,
    states,
};

pub(super) struct Store {
    key: SealingKey,
    cookie: Cookie,
    /// Milliseconds; 0: no limit.
    idling_ms: i64,
    rolling_ms: i64,
    absolute_ms: i64,
    redis: Option<Database>,
}

impl Store {
    /// `discovery` and `client_id`: who makes the identities that are kept.
    pub(super) fn new(conf: &SessionConf, discovery: &str, client_id: &str) -> Result<Store, String> {
        let secret = hmac::Key::new(hmac::HMAC_SHA256, conf.secret.as_bytes());
        let mut attributes = format!("; Path={}", conf.cookie_path.as_deref().unwrap_or("/"));
        if let Some(domain) = &conf.cookie_domain {
            attributes.push_str(&format!("; Domain={domain}"));
        }
        match conf.cookie_same_site.as_deref().unwrap_or("Lax") {
            "Default" => {}
            policy => attributes.push_str(&format!("; SameSite={policy}")),
        }
        if conf.cookie_http_only.unwrap_or(true) {
            attributes.push_str("; HttpOnly");
        }
        let name = conf.cookie_name.clone().unwrap_or_else(|| "session".to_owned());
        let place = serde_json::to_vec(&[&name, discovery, client_id]).map_err(|error| error.to_string())?;
        let lifetime = conf.cookie.as_ref().and_then(|cookie| cookie.lifetime);
        Ok(Store {
            key: SealingKey::new("tidegate openid-connect session v1", &[&conf.secret], place)?,
            cookie: Cookie { name, attributes, secure: conf.cookie_secure },
            idling_ms: conf.idling_timeout.unwrap_or(900).saturating_mul(1000),
            rolling_ms: conf.rolling_timeout.unwrap_or(3600).saturating_mul(1000),
            absolute_ms: conf.absolute_timeout.or(lifetime).unwrap_or(86_400).saturating_mul(1000),
            redis: Database::new(conf, &secret)?,
        })
    }

    /// The request's session, unless there is none, it is too old or not ours.
    pub(super) async fn load(&self, request: &Request) -> Result<Option<Session>, String> {
        let sent = self.cookie.read(request);
        if sent.is_empty() {
            return Ok(None);
        }
        let now = now_ms();
        let session = match &self.redis {
            None => self.key.open(&sent, IN_COOKIE).filter(|session: &Session| {
                !ended::is_over(session.mark.as_deref(), session.created_ms, now)
            }),
            Some(redis) => {
                let Some(id) = std::str::from_utf8(&sent).ok().filter(|id| is_id(id)) else {
                    let waiting = self
                        .key
                        .open(&sent, IN_COOKIE)
                        .filter(|session: &Session| session.identity.is_none());
                    return Ok(waiting.filter(|session| !self.is_over(session, now)));
                };
                let sealed = redis.get(id).await?;
                sealed
                    .and_then(|sealed| self.key.open(&sealed, id))
                    .map(|session: Session| Session { id: Some(id.to_owned()), ..session })
            }
        };
        Ok(session.filter(|session| !self.is_over(session, now)))
    }

    /// Keeps the session; answers the `Set-Cookie` lines for it.
    pub(super) async fn save(&self, session: &mut Session, request: &Request) -> Result<Vec<String>, String> {
        let now = now_ms();
        if session.created_ms == 0 {
            session.created_ms = now;
        }
        session.used_ms = now;
        if session.rolled_ms == 0 || now - session.rolled_ms > self.rolling_ms / 4 {
            session.rolled_ms = now;
        }
        session.mark.get_or_insert_with(random_token);
        let value = match &self.redis {
            None => self.key.seal(session, IN_COOKIE)?,
            Some(_) if session.identity.is_none() => self.seal_waiting(session)?,
            Some(redis) => match self.save_in_redis(redis, session).await? {
                Some(id) => id,
                None => return Ok(Vec::new()),
            },
        };
        self.cookies(&value, request)
    }

    /// The id of the session; `None` where it has ended meanwhile.
    async fn save_in_redis(&self, redis: &Database, session: &mut Session) -> Result<Option<String>, String> {
        let limits = [self.idling_ms, self.rolling_ms, self.absolute_ms];
        let lifetime = limits.into_iter().filter(|limit| *limit > 0).min();
        if let Some(id) = &session.id {
            let kept = redis.replace(id, &self.key.seal(session, id)?, lifetime).await?;
            return Ok(kept.then(|| id.clone()));
        }
        let id = format!("{}{}", random_token(), random_token());
        redis.create(&id, &self.key.seal(session, &id)?, lifetime).await?;
        session.id = Some(id.clone());
        Ok(Some(id))
    }

    /// Uses the state of a login; `false`: its callback came before.
    pub(super) async fn claim(&self, state: &str, session: &Session) -> Result<bool, String> {
        let now = now_ms();
        let until = self.ends_ms(session, now).min(now.saturating_add(LONGEST_LOGIN_MS));
        match &self.redis {
            Some(redis) => redis.claim_state(state, until - now).await,
            None => states::claim(state, until, now)
                .map_err(|reason| format!("{reason}: use session.storage redis")),
        }
    }

    /// Gives the state of a login back that came to nothing.
    pub(super) async fn release(&self, state: &str) {
        match &self.redis {
            Some(redis) => redis.release_state(state).await,
            None => states::release(state),
        }
    }

    /// A session in which no user has logged in, for cookies that a head has room for: the oldest logins go.
    fn seal_waiting(&self, session: &mut Session) -> Result<String, String> {
        let mut sealed = self.key.seal(session, IN_COOKIE)?;
        while sealed.len() > 2 * COOKIE_BYTES && session.logins.len() > 1 {
            session.logins.remove(0);
            sealed = self.key.seal(session, IN_COOKIE)?;
        }
        Ok(sealed)
    }

    /// Forgets the session; answers the lines that remove its cookies.
    pub(crate) async fn destroy(
        &self,
        session: Option<&Session>,
        request: &Request,
    ) -> Result<Vec<String>, String> {
        if let (Some(redis), Some(id)) = (&self.redis, session.and_then(|session| session.id.as_ref())) {
            redis.delete(id).await?;
        }
        // A cookie that was copied before is as good as the one that is removed here.
        if let Some(Session { mark: Some(mark), identity: Some(_), .. }) = session
            && self.redis.is_none()
        {
            let now = now_ms();
            ended::end(mark, session.map_or(i64::MAX, |session| self.ends_ms(session, now)), now);
        }
        self.cookies("", request)
    }

    /// Whether its use should be recorded now: not at every request, that would send a cookie each time.
    pub(crate) fn wants_saving(&self, session: &Session) -> bool {
        let unused = now_ms() - session.used_ms;
        self.idling_ms > 0 && unused > (self.idling_ms / 10).min(60_000)
    }

    /// When the last copy of a session that is not used any more is too old.
    fn ends_ms(&self, session: &Session, now_ms: i64) -> i64 {
        let limits =
            [(session.created_ms, self.absolute_ms), (now_ms, self.rolling_ms), (now_ms, self.idling_ms)];
        let ends = limits.into_iter().filter(|(_, limit)| *limit > 0);
        // Limits count whole milliseconds, the last one included.
        ends.map(|(since, limit)| since.saturating_add(limit).saturating_add(1)).min().unwrap_or(i64::MAX)
    }

    fn is_over(&self, session: &Session, now_ms: i64) -> bool {
        let past = |since: i64, limit: i64| limit > 0 && now_ms - since > limit;
        past(session.created_ms, self.absolute_ms)
            || past(session.rolled_ms, self.rolling_ms)
            || past(session.used_ms, self.idling_ms)
    }

    /// One line per piece; pieces of a longer session that the browser still has are removed.
    fn cookies(&self, value: &str, request: &Request) -> Result<Vec<String>, String> {
        let lines = self.cookie.lines(value, request);
        lines.ok_or_else(|| "the session is too large for cookies: use session.storage redis".to_owned())
    }
}

/// A session that is in no database has no id.
const IN_COOKIE: &str = "";

fn is_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{contents::MAX_LOGINS, *};

    fn store(secret: &str) -> Store {
        store_of(secret, "http://idp/discovery", "c")
    }

    fn store_of(secret: &str, discovery: &str, client_id: &str) -> Store {
        let conf =
            json!({"secret": secret, "storage": "cookie", "absolute_timeout": 10, "rolling_timeout": 0});
        Store::new(&serde_json::from_value(conf).expect("conf"), discovery, client_id).expect("store")
    }

    #[test]
    fn sealed_sessions_open_with_their_secret_only() {
        let mut session = Session::default();
        session.add_login(Login {
            state: "s".to_owned(),
            original_url: "/x".to_owned(),
            nonce: None,
            verifier: None,
            begun_ms: now_ms(),
        });
        let sealed = store("0123456789abcdef").key.seal(&session, "a").expect("sealed");
        let opened = store("0123456789abcdef").key.open::<Session>(sealed.as_bytes(), "a").expect("session");
        assert!(
            store("0123456789abcdef").key.open::<Session>(sealed.as_bytes(), "b").is_none(),
            "of another id"
        );
        assert_eq!(opened.original_url.as_deref(), Some("/x"));
        assert!(store("fedcba9876543210").key.open::<Session>(sealed.as_bytes(), "a").is_none());
        for (discovery, client_id) in [("http://idp/discovery", "d"), ("http://other/discovery", "c")] {
            let other = store_of("0123456789abcdef", discovery, client_id);
            assert!(other.key.open::<Session>(sealed.as_bytes(), "a").is_none(), "{discovery} {client_id}");
        }
        let mut other = sealed.into_bytes();
        other[20] = if other[20] == b'A' { b'B' } else { b'A' };
        assert!(store("0123456789abcdef").key.open::<Session>(&other, "a").is_none());
        assert!(store("0123456789abcdef").key.open::<Session>(b"short", "a").is_none());
    }

    #[test]
    fn limits() {
        let store = store("0123456789abcdef");
        let session = Session { created_ms: 1_000, rolled_ms: 1_000, used_ms: 1_000, ..Session::default() };
        assert!(!store.is_over(&session, 11_000));
        assert!(store.is_over(&session, 11_001), "absolute");
        // A session that has ended is remembered as long as a copy of it would count.
        assert_eq!(store.ends_ms(&session, 2_000), 11_001);
        let idle = Session { created_ms: 900_000, used_ms: 0, ..session };
        assert!(store.is_over(&idle, 900_001), "idle for 15 minutes");
    }

    #[test]
    fn old_logins_make_room() {
        let mut session = Session::default();
        for number in 0..10 {
            let state = number.to_string();
            let begun_ms = now_ms();
            session.add_login(Login {
                state,
                original_url: "/".to_owned(),
                nonce: None,
                verifier: None,
                begun_ms,
            });
        }
        assert_eq!(session.logins.len(), MAX_LOGINS);
        assert!(session.take_login("0").is_none());
        assert!(session.take_login("9").is_some());
        assert!(session.take_login("9").is_none(), "a state serves once");
        let old = session.logins.iter_mut().find(|login| login.state == "8").expect("waiting");
        old.begun_ms -= LONGEST_LOGIN_MS + 1;
        assert!(session.take_login("8").is_none(), "too old");
    }
}
