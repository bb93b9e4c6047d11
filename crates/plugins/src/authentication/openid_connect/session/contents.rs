//! What a session holds: logins under way, and who the user is.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::common::clock::now_ms;

/// A login that the browser was sent away for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Login {
    pub state: String,
    pub(crate) original_url: String,
    pub nonce: Option<String>,
    pub verifier: Option<String>,
    #[serde(default)]
    pub(crate) begun_ms: i64,
}

/// What a finished login left.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub id_token: Option<Value>,
    pub(crate) raw_id_token: Option<String>,
    pub access_token: Option<String>,
    /// Seconds since 1970.
    pub(crate) access_token_expires: Option<i64>,
    pub(crate) refresh_token: Option<String>,
    pub user: Option<Value>,
    pub(crate) since_seconds: i64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Session {
    pub(super) created_ms: i64,
    pub(super) rolled_ms: i64,
    pub(super) used_ms: i64,
    /// Oldest first; a browser may have several tabs waiting.
    pub logins: Vec<Login>,
    pub(crate) original_url: Option<String>,
    /// Consecutive logins restarted because their callback failed.
    pub(crate) restarts: u32,
    pub identity: Option<Identity>,
    /// Names a session that is kept in a cookie; the same in all its copies.
    pub(super) mark: Option<String>,
    /// Where Redis keeps it.
    #[serde(skip)]
    pub(super) id: Option<String>,
}

/// Logins waiting at once; the oldest goes.
pub(super) const MAX_LOGINS: usize = 5;
/// A login that has waited longer begins again.
pub(super) const LONGEST_LOGIN_MS: i64 = 3_600_000;
impl Session {
    /// A new session, with the logins that other tabs still wait for.
    pub(crate) fn logged_in(identity: Identity, logins: Vec<Login>) -> Session {
        Session { identity: Some(identity), logins, ..Session::default() }
    }

    pub(crate) fn add_login(&mut self, login: Login) {
        self.original_url = Some(login.original_url.clone());
        if self.logins.len() >= MAX_LOGINS {
            self.logins.remove(0);
        }
        self.logins.push(login);
    }

    pub(crate) fn take_login(&mut self, state: &str) -> Option<Login> {
        let at = self.logins.iter().position(|login| login.state == state)?;
        let login = self.logins.remove(at);
        (now_ms() - login.begun_ms <= LONGEST_LOGIN_MS).then_some(login)
    }
}
