//! Browsers that were sent to the identity provider. Each comes back once, in time, and to where it left.
//!
//! What is known of one is sealed in its own cookie: however many are sent away, none makes room for another, and none takes
//! memory. What came back is remembered for as long as it could come again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, OnceLock, PoisonError},
    time::{Duration, Instant},
};

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, NONCE_LEN, Nonce, RandomizedNonceKey},
    constant_time::verify_slices_are_equal,
};
use data_encoding::BASE64URL_NOPAD;
use serde_json::{Value, json};
use tidegate_model::random::fill_secret;

use super::token::id_of;
use crate::{caller::SessionId, oidc::Login};

/// How long a person may take at the provider.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

/// That came back and are remembered; the oldest makes room. The provider takes each code once, too.
const MOST: usize = 4096;

/// Longer cookies are refused unread.
const LONGEST_TOKEN: usize = 3500;

pub(crate) struct Logins {
    /// Of this process.
    key: OnceLock<RandomizedNonceKey>,
    /// What the times in tokens are counted from.
    start: Instant,
    over: Mutex<HashMap<SessionId, Instant>>,
}

impl Default for Logins {
    fn default() -> Logins {
        Logins { key: OnceLock::new(), start: Instant::now(), over: Mutex::default() }
    }
}

impl Logins {
    /// The token that the browser has to show.
    pub(crate) fn begin(&self, login: &Login, now: Instant) -> Result<String, String> {
        let since = now.saturating_duration_since(self.start).as_millis() as u64;
        let Login { state, redirect_uri, nonce, verifier } = login;
        let known = json!([since, state, redirect_uri, nonce, verifier]);
        let mut sealed = known.to_string().into_bytes();
        let nonce = self.key()?.seal_in_place_append_tag(Aad::empty(), &mut sealed);
        let nonce = nonce.map_err(|_| "the sign-in cannot be sealed".to_owned())?;
        let token = BASE64URL_NOPAD.encode(&[nonce.as_ref().as_slice(), &sealed].concat());
        match token.len() <= LONGEST_TOKEN {
            true => Ok(token),
            false => Err("the redirect_uri is too long for a cookie".to_owned()),
        }
    }

    /// The login of this token, which is over with that, whatever its state is.
    pub(crate) fn take(&self, token: &str, state: &str, now: Instant) -> Option<Login> {
        let (login, since) = self.open(token)?;
        let is_late = now.saturating_duration_since(since) >= LONGEST;
        if is_late || !self.is_first(id_of(&login.state), now) {
            return None;
        }
        let fits = verify_slices_are_equal(login.state.as_bytes(), state.as_bytes()).is_ok();
        fits.then_some(login)
    }

    fn open(&self, token: &str) -> Option<(Login, Instant)> {
        let bytes = Some(token.as_bytes()).filter(|token| token.len() <= LONGEST_TOKEN)?;
        let bytes = BASE64URL_NOPAD.decode(bytes).ok()?;
        let (nonce, sealed) = bytes.split_first_chunk::<NONCE_LEN>()?;
        let mut sealed = sealed.to_vec();
        let key = self.key.get()?;
        let known =
            key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::empty(), &mut sealed).ok()?;
        let known: Value = serde_json::from_slice(known).ok()?;
        let text = |at: usize| known.get(at).and_then(Value::as_str).map(str::to_owned);
        let since = self.start.checked_add(Duration::from_millis(known.get(0)?.as_u64()?))?;
        let login = Login { state: text(1)?, redirect_uri: text(2)?, nonce: text(3), verifier: text(4) };
        Some((login, since))
    }

    /// Whether it has not come back before.
    fn is_first(&self, id: SessionId, now: Instant) -> bool {
        let mut over = self.over();
        if over.contains_key(&id) {
            return false;
        }
        if over.len() >= MOST {
            over.retain(|_, at| now.saturating_duration_since(*at) < LONGEST);
        }
        if over.len() >= MOST {
            let oldest = over.iter().min_by_key(|(_, at)| **at).map(|(id, _)| *id);
            oldest.and_then(|id| over.remove(&id));
        }
        over.insert(id, now);
        true
    }

    fn key(&self) -> Result<&RandomizedNonceKey, String> {
        if let Some(key) = self.key.get() {
            return Ok(key);
        }
        let mut bytes = [0; 32];
        fill_secret(&mut bytes).map_err(|error| format!("no random numbers: {error}"))?;
        let key =
            RandomizedNonceKey::new(&AES_256_GCM, &bytes).map_err(|_| "no key to seal with".to_owned())?;
        Ok(self.key.get_or_init(|| key))
    }

    fn over(&self) -> MutexGuard<'_, HashMap<SessionId, Instant>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn login(state: &str) -> Login {
        Login { state: state.to_owned(), redirect_uri: String::new(), nonce: None, verifier: None }
    }

    #[test]
    fn each_serves_once_in_time_and_with_its_state() {
        let logins = Logins::default();
        let start = Instant::now();
        let begin = |state: &str| logins.begin(&login(state), start).expect("begun");
        let token = begin("a");
        for forged in [
            "",
            "other",
            &token[1..],
            &format!("{token}A"),
            &Logins::default().begin(&login("a"), start).expect("begun"),
        ] {
            assert!(logins.take(forged, "a", start).is_none(), "{forged}");
        }
        assert!(logins.take(&token, "a", start).is_some());
        assert!(logins.take(&token, "a", start).is_none(), "once");
        let token = begin("b");
        assert!(logins.take(&token, "t", start).is_none());
        assert!(logins.take(&token, "b", start).is_none(), "a wrong state ends it");
        let token = begin("c");
        assert!(logins.take(&token, "c", start + LONGEST).is_none(), "late");
        let full = Login { nonce: Some("n".to_owned()), verifier: Some("v".to_owned()), ..login("d") };
        let token = logins.begin(&full, start).expect("begun");
        let found = logins.take(&token, "d", start).expect("the login");
        assert_eq!((found.nonce.as_deref(), found.verifier.as_deref()), (Some("n"), Some("v")));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (logins, start) = (Logins::default(), Instant::now());
        for number in 0..=MOST {
            let state = number.to_string();
            let token = logins.begin(&login(&state), start).expect("begun");
            assert!(logins.take(&token, &state, start + Duration::from_millis(number as u64)).is_some());
        }
        assert_eq!(logins.over().len(), MOST);
    }
}
