//! Regular expressions that need too many steps on a client's text.

use telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// Names the pattern in the error log, so that its author can rewrite it.
pub fn warn(pattern: &str) {
    static LIMITER: Limiter = Limiter::new(1, 10_000);
    if LIMITER.pass().is_some() {
        error_log::log(
            Level::Warn,
            format_args!(
                "regular expression '{pattern}' took too many steps on a client's text; the request is refused. \
                 Write it without back-references and look-around, which makes it linear"
            ),
        );
    }
}
