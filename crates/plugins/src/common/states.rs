//! States of logins, each of which serves one callback. In this process: a browser may send its cookie again, and so may
//! anyone who copied it.

use super::spent::{self, Claim, Spent};

/// 48 bytes each at most.
const CAPACITY: usize = 1 << 18;

static STATES: Spent = Spent::new(CAPACITY);

/// `false`: this state was used before.
pub(crate) fn claim(state: &str, until_ms: i64, now_ms: i64) -> Result<bool, String> {
    match STATES.claim(spent::mark(&[state.as_bytes()]), until_ms, now_ms) {
        Claim::First => Ok(true),
        Claim::Again => Ok(false),
        Claim::Full => Err("too many logins at once to remember".to_owned()),
    }
}

/// Gives the state of a login back that came to nothing.
pub(crate) fn release(state: &str) {
    STATES.release(&spent::mark(&[state.as_bytes()]));
}
