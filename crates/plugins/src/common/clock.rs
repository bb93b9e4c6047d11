//! Clocks of the plugins that count time.

use std::{
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

/// Seconds since an hour before the process first asked: never jumps, and windows that look back stay above zero.
pub fn monotonic_seconds(at: Instant) -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    at.saturating_duration_since(*START.get_or_init(Instant::now)).as_secs_f64() + 3600.0
}

/// Seconds since 1970: what gateways that share a store can compare.
pub fn unix_seconds() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |elapsed| elapsed.as_secs_f64())
}
