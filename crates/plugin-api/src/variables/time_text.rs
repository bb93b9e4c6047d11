//! Times as nginx writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use tidegate_telemetry::clock::{self, HTTP_DATE, TIME_ISO8601, TIME_LOCAL};

/// `21/Nov/2026:03:00:00 +0000`
pub fn local() -> String {
    clock::local(clock::unix_ms(), TIME_LOCAL)
}

/// `2026-11-21T03:00:00+00:00`
pub(crate) fn iso8601() -> String {
    clock::local(clock::unix_ms(), TIME_ISO8601)
}

/// `Sat, 21 Nov 2026 03:00:00 GMT`
pub fn http_date(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    clock::utc(i64::try_from(since.as_millis()).unwrap_or(i64::MAX), HTTP_DATE)
}

/// Seconds since the epoch with milliseconds.
pub(crate) fn msec() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}", since.as_secs(), since.subsec_millis())
}
