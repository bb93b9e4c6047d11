//! The time that sessions and tokens are judged by.

use crate::common::clock;

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    (clock::unix_seconds() * 1000.0) as i64
}

/// Seconds since 1970.
pub(super) fn now_seconds() -> i64 {
    clock::unix_seconds() as i64
}
