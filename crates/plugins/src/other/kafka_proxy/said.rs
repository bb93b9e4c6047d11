//! What clients cause in the error log, within bounds.

use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// Logs some of the lines, and counts the others.
pub(super) fn log_some(level: Level, what: &str) {
    static LINES: Limiter = Limiter::new(10, 1000);
    if let Some(others) = LINES.pass() {
        error_log::log(level, format_args!("{what}; {others} more since the previous line"));
    }
}
