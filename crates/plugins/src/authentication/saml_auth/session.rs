//! What the browser keeps, sealed: logins under way, and who its user is.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tidegate_model::random::fill_secret;
use tidegate_plugin_api::{Reply, Request};

use super::message::Vouched;
use crate::common::{
    cookies::Cookie,
    sealed::SealingKey,
    spent::{self, Claim, Spent},
};

/// Logins waiting at once; the oldest goes.
const MAX_LOGINS: usize = 5;
/// A login that has waited longer begins again.
const LONGEST_LOGIN_MS: i64 = 3_600_000;
/// Where the provider does not say when a session ends.
const LONGEST_SESSION_MS: i64 = 86_400_000;
/// 48 bytes each at most.
const CAPACITY: usize = 1 << 18;

/// Sessions that have ended before their time: a copy of their cookie does not count.
static ENDED: Spent = Spent::new(CAPACITY);
/// Assertions that have served.
static USED: Spent = Spent::new(CAPACITY);

/// A login that the browser was sent away for.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Login {
    /// Its `RelayState`.
    pub(super) state: String,
    /// The id of the request, which the response has to name.
    pub(super) request: String,
    pub(super) original_url: String,
    begun_ms: i64,
}

#[derive(Clone, Serialize, Deserialize)]
pub(super) struct User {
    pub(super) name_id: String,
    pub(super) session_index: Option<String>,
    attributes: Map<String, Value>,
    pub(super) issuer: String,
    /// Names the session where it has ended.
    mark: String,
    until_ms: i64,
}

#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Session {
    logins: Vec<Login>,
    user: Option<User>,
    /// Of a user who has logged out here: until when the provider's answer is expected.
    #[serde(default)]
    leaving_ms: Option<i64>,
}

/// 128 random bits, as an id of XML: it does not begin with a digit.
pub(super) fn random_id() -> String {
    let mut bytes = [0; 16];
    // Without random numbers nothing here is safe; the library fails only where the system is broken.
    if fill_secret(&mut bytes).is_err() {
        std::process::abort();
    }
    format!("ID_{}", data_encoding::HEXLOWER.encode(&bytes))
}

impl Login {
    pub(super) fn new(original_url: String, now_ms: i64) -> Login {
        Login { state: random_id(), request: random_id(), original_url, begun_ms: now_ms }
    }
}

impl User {
    pub(super) fn new(vouched: Vouched, now_ms: i64) -> User {
        let longest_ms = now_ms.saturating_add(LONGEST_SESSION_MS);
        User {
            name_id: vouched.name_id,
            session_index: vouched.session_index,
            attributes: vouched.attributes,
            issuer: vouched.issuer,
            mark: random_id(),
            until_ms: vouched.session_ends_ms.unwrap_or(longest_ms),
        }
    }

    /// `ctx.external_user`, as APISIX has it.
    pub(super) fn shown(&self) -> Value {
        json!({
            "authenticated": true,
            "name_id": self.name_id,
            "session_index": self.session_index,
            "attrs": self.attributes,
            "issuer": self.issuer,
        })
    }

    fn mark(&self) -> spent::Mark {
        spent::mark(&[self.mark.as_bytes()])
    }
}

impl Session {
    pub(super) fn user(&self, now_ms: i64) -> Option<&User> {
        let user = self.user.as_ref().filter(|user| now_ms < user.until_ms)?;
        (!ENDED.contains(&user.mark(), now_ms)).then_some(user)
    }

    pub(super) fn add(&mut self, login: Login) {
        if self.logins.len() >= MAX_LOGINS {
            self.logins.remove(0);
        }
        self.logins.push(login);
    }

    pub(super) fn has_logins(&self) -> bool {
        !self.logins.is_empty()
    }

    /// The login of a state, which then is under way no longer.
    pub(super) fn take(&mut self, state: &str, now_ms: i64) -> Option<Login> {
        let at = self.logins.iter().position(|login| login.state == state)?;
        let login = self.logins.remove(at);
        (now_ms < login.begun_ms.saturating_add(LONGEST_LOGIN_MS)).then_some(login)
    }

    /// The session of before ends: what someone may have planted does not live on.
    pub(super) fn log_in(&mut self, user: User, now_ms: i64) -> Result<(), String> {
        self.log_out(now_ms)?;
        self.user = Some(user);
        Ok(())
    }

    /// Whether a message about a logout is of this browser.
    pub(super) fn may_end(&self, now_ms: i64) -> bool {
        self.user(now_ms).is_some() || self.leaving_ms.is_some_and(|until_ms| now_ms < until_ms)
    }

    /// What is left when the user has gone to the provider to log out there as well.
    pub(super) fn leaving(mut self, now_ms: i64) -> Result<Session, String> {
        self.log_out(now_ms)?;
        let until_ms = now_ms.saturating_add(LONGEST_LOGIN_MS);
        Ok(Session { leaving_ms: Some(until_ms), ..Session::default() })
    }

    pub(super) fn log_out(&mut self, now_ms: i64) -> Result<(), String> {
        let Some(user) = self.user.take() else { return Ok(()) };
        match ENDED.claim(user.mark(), user.until_ms, now_ms) {
            Claim::Full => Err("there are too many logouts to remember".to_owned()),
            _ => Ok(()),
        }
    }
}

/// An assertion serves once.
pub(super) fn use_assertion(vouched: &Vouched, audience: &str, now_ms: i64) -> Result<(), &'static str> {
    let parts = [audience, &vouched.issuer, &vouched.assertion_id];
    match USED.claim(spent::mark(&parts.map(str::as_bytes)), vouched.usable_until_ms, now_ms) {
        Claim::First => Ok(()),
        Claim::Again => Err("the assertion was used before"),
        Claim::Full => Err("there are too many assertions to remember"),
    }
}

pub(super) struct Sessions {
    cookie: Cookie,
    key: SealingKey,
}

impl Sessions {
    /// `place`: what a session is bound to. `is_posted`: the identity provider's page posts to this site.
    pub(super) fn new(secrets: &[&str], place: Vec<u8>, is_posted: bool) -> Result<Sessions, String> {
        let same_site = if is_posted { "None" } else { "Lax" };
        Ok(Sessions {
            cookie: Cookie {
                name: "saml_session".to_owned(),
                attributes: format!("; Path=/; SameSite={same_site}; HttpOnly"),
                secure: is_posted.then_some(true),
            },
            key: SealingKey::new("tidegate saml-auth session v1", secrets, place)?,
        })
    }

    /// `None`: there is none, or it is not of this configuration.
    pub(super) fn load(&self, request: &Request) -> Option<Session> {
        self.key.open(&self.cookie.read(request), "")
    }

    /// The answer with the session in its cookies.
    pub(super) fn save(&self, session: &Session, request: &Request, reply: Reply) -> Result<Reply, String> {
        let is_empty = session.user.is_none() && session.logins.is_empty() && session.leaving_ms.is_none();
        let text = if is_empty { String::new() } else { self.key.seal(session, "")? };
        let lines = self.cookie.lines(&text, request).ok_or("the session is too large for cookies")?;
        Ok(lines.into_iter().fold(reply, |reply, line| reply.header("Set-Cookie", line)))
    }
}
