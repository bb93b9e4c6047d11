//! Browsers that were sent to the identity provider. Each comes back once, in time, and to where it left.

use std::{
    collections::HashMap,
    net::IpAddr,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use aws_lc_rs::constant_time::verify_slices_are_equal;

use super::{
    attempts::network,
    token::{id_of, secret},
};
use crate::{caller::SessionId, oidc::Login};

/// How long a person may take at the provider.
pub(crate) const LONGEST: Duration = Duration::from_secs(600);

/// At a time, of all clients and of one; the oldest makes room.
const MOST: usize = 1024;
const MOST_OF_CLIENT: usize = 32;

#[derive(Default)]
pub(crate) struct Logins(Mutex<HashMap<SessionId, Waiting>>);

struct Waiting {
    login: Login,
    client: IpAddr,
    since: Instant,
}

impl Logins {
    /// The token that the browser has to show.
    pub(crate) fn begin(&self, login: Login, address: IpAddr, now: Instant) -> Result<String, String> {
        let (token, client) = (secret()?, network(address));
        let mut table = self.table();
        table.retain(|_, waiting| !waiting.is_over(now));
        if table.values().filter(|waiting| waiting.client == client).count() >= MOST_OF_CLIENT {
            remove_oldest(&mut table, |waiting| waiting.client == client);
        }
        if table.len() >= MOST {
            remove_oldest(&mut table, |_| true);
        }
        table.insert(id_of(&token), Waiting { login, client, since: now });
        Ok(token)
    }

    /// The login of this token, which is over with that, whatever its state is.
    pub(crate) fn take(&self, token: &str, state: &str, now: Instant) -> Option<Login> {
        let waiting = self.table().remove(&id_of(token)).filter(|waiting| !waiting.is_over(now))?;
        let fits = verify_slices_are_equal(waiting.login.state.as_bytes(), state.as_bytes()).is_ok();
        fits.then_some(waiting.login)
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Waiting>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= LONGEST
    }
}

fn remove_oldest(table: &mut HashMap<SessionId, Waiting>, among: impl Fn(&Waiting) -> bool) {
    let oldest = table.iter().filter(|(_, waiting)| among(waiting)).min_by_key(|(_, waiting)| waiting.since);
    if let Some(id) = oldest.map(|(id, _)| *id) {
        table.remove(&id);
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
        let (logins, start) = (Logins::default(), Instant::now());
        let address = IpAddr::from([192, 0, 2, 1]);
        let token = logins.begin(login("s"), address, start).expect("begun");
        assert!(logins.take("other", "s", start).is_none());
        assert!(logins.take(&token, "s", start).is_some());
        assert!(logins.take(&token, "s", start).is_none(), "once");
        let token = logins.begin(login("s"), address, start).expect("begun");
        assert!(logins.take(&token, "t", start).is_none());
        assert!(logins.take(&token, "s", start).is_none(), "a wrong state ends it");
        let token = logins.begin(login("s"), address, start).expect("begun");
        assert!(logins.take(&token, "s", start + LONGEST).is_none(), "late");
    }

    #[test]
    fn they_are_bounded() {
        let (logins, start) = (Logins::default(), Instant::now());
        let at = |count: u64| start + Duration::from_millis(count);
        let patient = logins.begin(login("p"), IpAddr::from([192, 0, 2, 1]), at(0)).expect("begun");
        let first = logins.begin(login("f"), IpAddr::from([192, 0, 2, 2]), at(1)).expect("begun");
        for count in 0..MOST_OF_CLIENT as u64 {
            logins.begin(login("x"), IpAddr::from([192, 0, 2, 2]), at(2 + count)).expect("begun");
        }
        assert!(logins.take(&first, "f", at(99)).is_none(), "made room");
        assert!(logins.take(&patient, "p", at(99)).is_some(), "another client's");
        for number in 0..2 * MOST as u32 {
            logins.begin(login("x"), IpAddr::from(number.to_be_bytes()), at(100)).expect("begun");
        }
        assert_eq!(logins.table().len(), MOST);
    }
}
