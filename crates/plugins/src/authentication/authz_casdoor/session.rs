//! What the browser keeps, sealed: logins under way, and until when its user is logged in.

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use tidegate_model::random::fill_secret;
use tidegate_plugin_api::Request;

use crate::common::{clock::now_ms, cookies::Cookie, sealed::SealingKey};

/// Logins waiting at once; the oldest goes.
const MAX_LOGINS: usize = 5;
/// A login that has waited longer begins again.
const LONGEST_LOGIN_MS: i64 = 3_600_000;

/// A login that the browser was sent away for.
#[derive(Serialize, Deserialize)]
pub(super) struct Login {
    pub(super) state: String,
    pub(super) original_url: String,
    begun_ms: i64,
}

#[derive(Default, Serialize, Deserialize)]
pub(super) struct Session {
    /// Oldest first; a browser may have several tabs waiting.
    pub(super) logins: Vec<Login>,
    /// Its user is logged in until then.
    pub(super) until_ms: Option<i64>,
}

pub(super) struct Sessions {
    cookie: Cookie,
    key: SealingKey,
}

impl Login {
    pub(super) fn new(original_url: String) -> Login {
        Login { state: random_digits(), original_url, begun_ms: now_ms() }
    }

    pub(super) fn ends_ms(&self) -> i64 {
        self.begun_ms.saturating_add(LONGEST_LOGIN_MS)
    }
}

/// 128 random bits. In digits, as APISIX's states are.
fn random_digits() -> String {
    let mut bytes = [0; 16];
    // Without random numbers nothing here is safe; the library fails only where the system is broken.
    if fill_secret(&mut bytes).is_err() {
        std::process::abort();
    }
    u128::from_be_bytes(bytes).to_string()
}

impl Session {
    pub(super) fn is_in(&self, now_ms: i64) -> bool {
        self.until_ms.is_some_and(|until| now_ms < until)
    }

    pub(super) fn add(&mut self, login: Login) {
        if self.logins.len() >= MAX_LOGINS {
            self.logins.remove(0);
        }
        self.logins.push(login);
    }

    pub(super) fn take(&mut self, state: &str, now_ms: i64) -> Option<Login> {
        let at = self.logins.iter().position(|login| login.state == state)?;
        let login = self.logins.remove(at);
        (now_ms < login.ends_ms()).then_some(login)
    }
}

impl Sessions {
    /// `conf`: client id, client secret, and what else a session is bound to.
    pub(super) fn new(conf: [&str; 4]) -> Result<Sessions, String> {
        let [client_id, client_secret, ..] = conf;
        let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, client_id.as_bytes());
        let name = format!("authz_casdoor_session_{}", HEXLOWER.encode(digest.as_ref()));
        let place = serde_json::to_vec(&conf).map_err(|error| error.to_string())?;
        let key = SealingKey::new("tidegate authz-casdoor session v1", &[client_secret], place)?;
        let attributes = "; Path=/; SameSite=Lax; HttpOnly".to_owned();
        Ok(Sessions { cookie: Cookie { name, attributes, secure: None }, key })
    }

    /// `None`: there is none, or it is not of this configuration.
    pub(super) fn load(&self, request: &Request) -> Option<Session> {
        self.key.open(&self.cookie.read(request), "")
    }

    /// The `Set-Cookie` lines for it.
    pub(super) fn save(&self, session: &Session, request: &Request) -> Result<Vec<String>, String> {
        let sealed = self.key.seal(session, "")?;
        self.cookie.lines(&sealed, request).ok_or_else(|| "the session is too large for cookies".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_serve_once_and_run_out() {
        let mut session = Session::default();
        for _ in 0..MAX_LOGINS + 1 {
            session.add(Login::new("/".to_owned()));
        }
        assert_eq!(session.logins.len(), MAX_LOGINS);
        let state = session.logins[0].state.clone();
        assert!(state.bytes().all(|byte| byte.is_ascii_digit()) && state.len() > 30, "{state}");
        assert!(session.take(&state, now_ms()).is_some());
        assert!(session.take(&state, now_ms()).is_none(), "again");
        let state = session.logins[0].state.clone();
        assert!(session.take(&state, now_ms() + LONGEST_LOGIN_MS).is_none(), "too late");
        assert!(!session.is_in(0));
        session.until_ms = Some(5);
        assert!(session.is_in(4) && !session.is_in(5));
    }
}
