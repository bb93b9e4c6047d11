//! Who has signed in. Sessions are in memory: they end with the process, and are of this gateway alone.

pub(crate) mod attempts;
pub(crate) mod exchanges;
pub(crate) mod logins;
pub(crate) mod password;
pub(crate) mod token;

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use aws_lc_rs::constant_time::verify_slices_are_equal;

use self::{
    attempts::Attempts,
    exchanges::Exchanges,
    logins::Logins,
    password::Passwords,
    token::{id_of, secret},
};
use crate::caller::{Caller, Origin, SessionId};

/// Without a request that a person made.
const IDLE: Duration = Duration::from_secs(30 * 60);

/// From signing in, whatever happens.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60);

/// At a time; the one that has been idle for longest makes room.
const MOST: usize = 1000;

const MOST_OF_ONE: usize = 20;

/// For how long a session is believed before its user is looked up again.
const BELIEVED: Duration = Duration::from_secs(5);

#[derive(Default)]
pub(crate) struct Sessions {
    /// By the digest of their token.
    table: Mutex<HashMap<SessionId, Session>>,
    pub attempts: Attempts,
    pub logins: Logins,
    pub exchanges: Exchanges,
    pub passwords: Passwords,
}

struct Session {
    caller: Caller,
    csrf: String,
    begun: Instant,
    /// From then on.
    longest: Duration,
    used: Instant,
    /// Of a user: what its record said.
    stamp: String,
    checked: Instant,
}

/// Who has shown who they are.
pub(crate) struct Person {
    pub caller: Caller,
    /// Of the user's record, which a change of it changes.
    pub stamp: String,
    /// How long they may stay.
    pub longest: Duration,
}

impl Person {
    pub(crate) fn of(caller: Caller, stamp: String) -> Person {
        Person { caller, stamp, longest: LONGEST }
    }
}

/// A session that has just begun.
pub(crate) struct Begun {
    /// For the cookie, and shown once.
    pub token: String,
    pub csrf: String,
    pub ends_in: Duration,
}

/// A session as a request meets it.
pub(crate) struct Found {
    pub caller: Caller,
    pub csrf: String,
    pub ends_in: Duration,
}

impl Sessions {
    pub(crate) fn begin(&self, person: Person, now: Instant) -> Result<Begun, String> {
        let Person { caller, stamp, longest } = person;
        let (token, csrf) = (secret()?, secret()?);
        let id = id_of(&token);
        let caller = Caller { session: Some(id), ..caller };
        let mut table = self.table();
        table.retain(|_, session| !session.is_over(now));
        let same = |session: &Session| same_person(&session.caller, &caller);
        if table.values().filter(|session| same(session)).count() >= MOST_OF_ONE {
            remove_idlest(&mut table, same);
        }
        if table.len() >= MOST {
            remove_idlest(&mut table, |_| true);
        }
        let session =
            Session { caller, csrf: csrf.clone(), begun: now, longest, used: now, stamp, checked: now };
        table.insert(id, session);
        Ok(Begun { token, csrf, ends_in: longest })
    }

    /// `uses`: whether a person is behind the request, so that the session is not idle.
    pub(crate) fn find(&self, token: &str, uses: bool, now: Instant) -> Option<Found> {
        let id = id_of(token);
        let mut table = self.table();
        let session = table.get_mut(&id)?;
        if session.is_over(now) {
            table.remove(&id);
            return None;
        }
        if uses {
            session.used = now;
        }
        let ends_in = session.longest.saturating_sub(now.saturating_duration_since(session.begun));
        Some(Found { caller: session.caller.clone(), csrf: session.csrf.clone(), ends_in })
    }

    pub(crate) fn end(&self, id: SessionId) {
        self.table().remove(&id);
    }

    /// All that a key or a user has.
    pub(crate) fn end_all(&self, caller: &Caller) {
        self.table().retain(|_, session| !same_person(&session.caller, caller));
    }

    /// Whether it is there still: a request may take longer than its session.
    pub(crate) fn is_open(&self, id: SessionId, now: Instant) -> bool {
        self.table().get(&id).is_some_and(|session| !session.is_over(now))
    }

    /// The stamp to compare with the user's record, where it is time to.
    pub(crate) fn to_check(&self, id: SessionId, now: Instant) -> Option<String> {
        let table = self.table();
        let session = table.get(&id).filter(|session| session.caller.origin == Origin::User)?;
        let is_due = now.saturating_duration_since(session.checked) >= BELIEVED;
        is_due.then(|| session.stamp.clone())
    }

    pub(crate) fn checked(&self, id: SessionId, now: Instant) {
        if let Some(session) = self.table().get_mut(&id) {
            session.checked = now;
        }
    }

    fn table(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Session {
    fn is_over(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) >= IDLE
            || now.saturating_duration_since(self.begun) >= self.longest
    }
}

impl Found {
    /// The time that it takes tells nothing of the token.
    pub(crate) fn has_csrf(&self, sent: &str) -> bool {
        verify_slices_are_equal(self.csrf.as_bytes(), sent.as_bytes()).is_ok()
    }
}

fn same_person(one: &Caller, other: &Caller) -> bool {
    (one.origin, &one.name) == (other.origin, &other.name)
}

fn remove_idlest(table: &mut HashMap<SessionId, Session>, among: impl Fn(&Session) -> bool) {
    let idlest = table.iter().filter(|(_, session)| among(session)).min_by_key(|(_, session)| session.used);
    if let Some(id) = idlest.map(|(id, _)| *id) {
        table.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::role::Role;

    fn caller(name: &str) -> Caller {
        Caller {
            name: name.to_owned(),
            role: Role::Viewer,
            origin: Origin::User,
            sees_consumers: false,
            scope: None,
            session: None,
        }
    }

    fn of(name: &str) -> Person {
        Person::of(caller(name), String::new())
    }

    #[test]
    fn sessions_end_when_idle_and_when_old() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let minutes = |count: u64| start + Duration::from_secs(count * 60);
        let idle = sessions.begin(of("a"), start).expect("begun").token;
        assert!(sessions.find(&idle, false, minutes(29)).is_some());
        assert!(sessions.find(&idle, true, minutes(30)).is_none(), "polls do not count");
        let old = sessions.begin(of("a"), start).expect("begun").token;
        for minute in (0..12 * 60).step_by(20) {
            assert!(sessions.find(&old, true, minutes(minute)).is_some(), "{minute}");
        }
        assert!(sessions.find(&old, true, minutes(12 * 60)).is_none());
        assert!(sessions.table().is_empty());
    }

    #[test]
    fn they_are_bounded_and_end_together() {
        let (sessions, start) = (Sessions::default(), Instant::now());
        let at = |count: usize| start + Duration::from_millis(count as u64);
        let tokens: Vec<String> = (0..MOST_OF_ONE + 1)
            .map(|count| sessions.begin(of("a"), at(count)).expect("begun").token)
            .collect();
        assert!(sessions.find(&tokens[0], true, at(99)).is_none(), "the idlest made room");
        assert!(tokens.iter().skip(1).all(|token| sessions.find(token, true, at(99)).is_some()));
        for count in 0..MOST {
            sessions.begin(of(&format!("u{count}")), at(200 + count)).expect("begun");
        }
        assert_eq!(sessions.table().len(), MOST);
        let key = Caller { origin: Origin::Key, ..caller("u999") };
        let of_key = sessions.begin(Person::of(key.clone(), String::new()), at(2000)).expect("begun").token;
        sessions.end_all(&caller("u999"));
        assert!(sessions.find(&of_key, true, at(2001)).is_some(), "a key of the same name is another one");
        sessions.end_all(&key);
        assert!(sessions.find(&of_key, true, at(2001)).is_none());
        assert!(sessions.find("", true, at(2001)).is_none() && sessions.find("x", true, at(2001)).is_none());
    }
}
