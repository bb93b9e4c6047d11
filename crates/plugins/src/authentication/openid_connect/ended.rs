//! What no longer counts though its cookie can still be opened: sessions that ended with a logout.
//!
//! A cookie is held by the browser, and by anyone who copied it. So the gateway remembers what has ended, in this
//! process, until the copies are too old anyway. Sessions in Redis need none of this.

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use tidegate_telemetry::error_log;

use crate::common::spent::{self, Claim, Spent};

/// 48 bytes each at most.
const CAPACITY: usize = 1 << 18;

static SESSIONS: Spent = Spent::new(CAPACITY);
/// All sessions of this time and before have ended: more logouts than can be remembered.
static ENDED_UNTIL_MS: AtomicI64 = AtomicI64::new(i64::MIN);

/// Whether a session that was sealed here does not count any more. One without a mark is from before there were marks.
pub(super) fn is_over(mark: Option<&str>, created_ms: i64, now_ms: i64) -> bool {
    let Some(mark) = mark else { return true };
    created_ms <= ENDED_UNTIL_MS.load(Relaxed) || SESSIONS.contains(&spent::mark(&[mark.as_bytes()]), now_ms)
}

/// Ends a session. When there is no room, all of them end, and users log in again.
pub(super) fn end(mark: &str, until_ms: i64, now_ms: i64) {
    if SESSIONS.claim(spent::mark(&[mark.as_bytes()]), until_ms, now_ms) == Claim::Full {
        ENDED_UNTIL_MS.fetch_max(now_ms, Relaxed);
        SESSIONS.clear();
        error_log::log(
            error_log::Level::Warn,
            format_args!(
                "openid-connect: too many logouts to remember, all sessions in cookies end now; use session.storage redis"
            ),
        );
    }
}
