//! Clocks of the plugins that count time.

use std::{
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

use tidegate_telemetry::clock;

/// Seconds since an hour before the process first asked: never jumps, and windows that look back stay above zero.
pub(crate) fn monotonic_seconds(at: Instant) -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    at.saturating_duration_since(*START.get_or_init(Instant::now)).as_secs_f64() + 3600.0
}

/// Seconds since 1970: what gateways that share a store can compare.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}

/// Milliseconds since 1970.
pub(crate) fn now_ms() -> i64 {
    (unix_seconds() * 1000.0) as i64
}

/// Seconds since 1970.
pub(crate) fn now_seconds() -> i64 {
    unix_seconds() as i64
}

/// nginx's form of a cookie's expiry: two digits for years up to 2037.
pub(crate) fn cookie_time(unix_seconds: i64) -> String {
    const LAST_SHORT_SECOND: i64 = 2_145_916_799;
    let form = match unix_seconds > LAST_SHORT_SECOND {
        true => "%a, %d-%b-%Y %H:%M:%S GMT",
        false => "%a, %d-%b-%y %H:%M:%S GMT",
    };
    clock::utc(unix_seconds.saturating_mul(1000), form)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cookie_times() {
        assert_eq!(cookie_time(0), "Thu, 01-Jan-70 00:00:00 GMT");
        assert_eq!(cookie_time(4_102_444_800), "Fri, 01-Jan-2100 00:00:00 GMT");
    }
}
