//! Regular expressions that take too long on a client's text.

use tidegate_routing::expr::MAX_TIME;
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

/// One line in ten seconds of each kind: neither hides the other.
static OF_MANY: Limiter = Limiter::new(1, 10_000);
static OF_ONE: Limiter = Limiter::new(1, 10_000);

/// Names the last one of a request whose patterns took too long together.
pub fn warn_of_many(pattern: &str) {
    if OF_MANY.pass().is_some() {
        let most = MAX_TIME.as_millis();
        error_log::log(
            Level::Warn,
            format_args!(
                "the regular expressions for one request took more than {most} ms in total, so '{pattern}' \
                 was abandoned; the request is refused. Use fewer patterns for one URI, and avoid \
                 back-references, look-around and large repetitions"
            ),
        );
    }
}

/// Names the pattern in the error log, so that its author can rewrite it.
pub fn warn(pattern: &str) {
    if OF_ONE.pass().is_some() {
        error_log::log(
            Level::Warn,
            format_args!(
                "regular expression '{pattern}' took too long on a client's text; the request is refused. \
                 Avoid back-references, look-around, and large repetitions such as {{1,100}}"
            ),
        );
    }
}
