//! What a start reports to the operator: on the terminal, and in the error log for later.
//!
//! `tidegate start` repeats the lines of the process in the background, by [`MARK`].

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use tidegate_telemetry::error_log::{self, Level};

/// What a warning begins with on standard error.
pub(crate) const MARK: &str = "tidegate: warning: ";

/// Whether the error log is standard error: one line is enough then.
static LOGS_TO_STDERR: AtomicBool = AtomicBool::new(false);

pub(crate) fn error_log_is_stderr(is: bool) {
    LOGS_TO_STDERR.store(is, Relaxed);
}

/// After the logs are open.
pub(crate) fn warn(message: &str) {
    error_log::log(Level::Warn, format_args!("{message}"));
    if !LOGS_TO_STDERR.load(Relaxed) {
        print(message);
    }
}

/// As [`warn`], for what cannot wait.
pub(crate) fn alarm(message: &str) {
    error_log::log(Level::Error, format_args!("{message}"));
    if !LOGS_TO_STDERR.load(Relaxed) {
        print(message);
    }
}

/// What the error log has already.
pub(crate) fn print_logged(message: &str) {
    if !LOGS_TO_STDERR.load(Relaxed) {
        print(message);
    }
}

/// What a list of objects that cannot be used says of those whose requests are not denied.
pub(crate) fn except<'a>(mut reasons: impl Iterator<Item = &'a str>) -> &'static str {
    if reasons.any(|reason| reason.contains("NOT refused")) { " (not where it says NOT refused)" } else { "" }
}

/// Before the logs are open, or where there are none.
pub(crate) fn print(message: &str) {
    crate::say::complain!("{MARK}{message}");
}
