//! Sessions, in this process: a CAS server ends them by their tickets, so the gateway must know them. The browser keeps a text that
//! only the gateway can make of the ticket: tickets stand in URLs, and so in logs and histories.

use aws_lc_rs::{digest, hmac};
use data_encoding::HEXLOWER;

use crate::common::spent::{self, Claim, Mark, Spent};

/// 48 bytes each at most.
const CAPACITY: usize = 1 << 18;
/// A session that is not used for so long ends.
const LIFETIME_MS: i64 = 3_600_000;

static SESSIONS: Spent = Spent::new(CAPACITY);

pub(super) struct Sessions {
    cookie: String,
    key: hmac::Key,
}

impl Sessions {
    pub(super) fn new(secret: &str, idp: &str, callback: &str) -> Sessions {
        let context = format!("{idp}|{callback}");
        let fingerprint = HEXLOWER.encode(digest::digest(&digest::SHA256, context.as_bytes()).as_ref());
        let secret = hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes());
        let key = hmac::sign(&secret, format!("tidegate cas-auth session v1 {fingerprint}").as_bytes());
        Sessions {
            cookie: format!("CAS_SESSION_{fingerprint}"),
            key: hmac::Key::new(hmac::HMAC_SHA256, key.as_ref()),
        }
    }

    /// The name of the cookie.
    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    /// The text for the cookie.
    pub(super) fn begin(&self, ticket: &str, now_ms: i64) -> Result<String, &'static str> {
        let session = self.of(ticket);
        match SESSIONS.claim(self.mark(session.as_bytes()), now_ms.saturating_add(LIFETIME_MS), now_ms) {
            Claim::First => Ok(session),
            Claim::Again => Err("it was used before"),
            Claim::Full => Err("there are too many sessions to remember"),
        }
    }

    /// Whether there is such a session; its time begins again.
    pub(super) fn renew(&self, session: &[u8], now_ms: i64) -> bool {
        SESSIONS.renew(&self.mark(session), now_ms.saturating_add(LIFETIME_MS), now_ms)
    }

    pub(super) fn end(&self, session: &[u8]) {
        SESSIONS.release(&self.mark(session));
    }

    pub(super) fn end_ticket(&self, ticket: &str) {
        self.end(self.of(ticket).as_bytes());
    }

    fn of(&self, ticket: &str) -> String {
        HEXLOWER.encode(hmac::sign(&self.key, ticket.as_bytes()).as_ref())
    }

    /// Sessions of one configuration are none of another.
    fn mark(&self, session: &[u8]) -> Mark {
        let bound = hmac::sign(&self.key, session);
        spent::mark(&[bound.as_ref()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "0123456789abcdef0123456789abcdef";

    #[test]
    fn sessions_end() {
        let sessions = Sessions::new(SECRET, "idp", "/cb");
        let session = sessions.begin("ST-1", 0).expect("a session");
        assert!(sessions.begin("ST-1", 1).is_err(), "a ticket serves once");
        assert!(!session.contains("ST-1") && !sessions.renew(b"ST-1", 1), "a ticket is not a session");
        assert!(sessions.renew(session.as_bytes(), LIFETIME_MS - 1));
        assert!(sessions.renew(session.as_bytes(), 2 * LIFETIME_MS - 2));
        assert!(!sessions.renew(session.as_bytes(), 3 * LIFETIME_MS), "idle");
        let session = sessions.begin("ST-2", 0).expect("a session");
        for (secret, idp, callback) in
            [(SECRET, "idp", "/other"), (SECRET, "other", "/cb"), ("another", "idp", "/cb")]
        {
            let other = Sessions::new(secret, idp, callback);
            assert!(!other.renew(session.as_bytes(), 1), "{secret} {idp} {callback}");
            other.end_ticket("ST-2");
        }
        assert!(sessions.renew(session.as_bytes(), 1));
        sessions.end_ticket("ST-2");
        assert!(!sessions.renew(session.as_bytes(), 1));
    }
}
