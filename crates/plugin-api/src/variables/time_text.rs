//! Times as nginx writes them.

use std::time::{SystemTime, UNIX_EPOCH};

use time::{OffsetDateTime, UtcOffset, macros::format_description};

fn now_local() -> OffsetDateTime {
    let now = OffsetDateTime::now_utc();
    now.to_offset(UtcOffset::local_offset_at(now).unwrap_or(UtcOffset::UTC))
}

/// `21/Nov/2026:03:00:00 +0000`
pub fn local() -> String {
    let format = format_description!(
        "[day]/[month repr:short]/[year]:[hour]:[minute]:[second] [offset_hour sign:mandatory][offset_minute]"
    );
    now_local().format(format).unwrap_or_default()
}

/// `2026-11-21T03:00:00+00:00`
pub fn iso8601() -> String {
    let format = format_description!(
        "[year]-[month]-[day]T[hour]:[minute]:[second][offset_hour sign:mandatory]:[offset_minute]"
    );
    now_local().format(format).unwrap_or_default()
}

/// `Sat, 21 Nov 2026 03:00:00 GMT`
pub fn http_date(at: SystemTime) -> String {
    let format = format_description!(
        "[weekday repr:short], [day] [month repr:short] [year] [hour]:[minute]:[second] GMT"
    );
    OffsetDateTime::from(at).to_offset(UtcOffset::UTC).format(format).unwrap_or_default()
}

/// Seconds since the epoch with milliseconds.
pub fn msec() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("{}.{:03}", since.as_secs(), since.subsec_millis())
}
