//! nginx's regular expressions as conditions.

use std::time::Duration;

use serde_json::Value;
use tidegate_backtrack::{Expression, pcre};

use super::condition::Condition;
use crate::reach;

const MOST_SEARCH: Duration = Duration::from_millis(5);

/// Whether it matches; `None`: this engine does not know it, and it may.
pub(super) fn takes(pattern: &str, text: &str) -> Option<bool> {
    match compile(pattern) {
        Some(expression) => Some(expression.is_match(text)),
        None if known(pattern).is_ok() => searched(pattern, text),
        None if reach::may_match(pattern, &[reach::Piece::Text(text)]) => None,
        None => Some(false),
    }
}

/// By the engine that goes back, as the gateway does for each request; `None`: it takes too long.
fn searched(pattern: &str, text: &str) -> Option<bool> {
    let expression = Expression::new(pattern, false).ok()?;
    expression.captures_patiently(text.as_bytes(), MOST_SEARCH).ok().map(|found| found.is_some())
}

/// A missing variable is an empty text in nginx, and no text at all here.
pub(super) fn is_empty(name: &str) -> Condition {
    Condition::test(name, "~~", "(?s).").negated()
}

pub(super) fn equals(name: &str, text: &str) -> Condition {
    match text {
        "" => is_empty(name),
        text => Condition::test(name, "==", Value::from(text)),
    }
}

/// The error says why it cannot be determined.
pub(super) fn matches(name: &str, pattern: &str) -> Result<Condition, String> {
    known(pattern)?;
    let found = Condition::test(name, "~~", Value::from(pattern));
    // It is unknown what a pattern that this engine does not know makes of an empty text.
    match matches_nothing(pattern) {
        Some(true) => Ok(Condition::any([found, is_empty(name)])),
        Some(false) => Ok(found),
        None if has_a_value(name) => Ok(found),
        None => Err(format!("whether `{pattern}` matches an empty text is not known")),
    }
}

/// Every request has these.
fn has_a_value(name: &str) -> bool {
    ["uri", "real_request_uri", "request_method", "scheme", "host", "remote_addr", "server_port"]
        .contains(&name)
}

fn matches_nothing(pattern: &str) -> Option<bool> {
    Some(compile(pattern)?.is_match(""))
}

/// The error says why the gateway does not read the expression as nginx does.
pub(super) fn known(pattern: &str) -> Result<(), String> {
    if pattern.contains("\\p") || pattern.contains("\\P") {
        return Err(format!("`{pattern}`: classes of non-ASCII characters are not those of nginx"));
    }
    if reach::is_odd(pattern) {
        return Err(format!(
            "`{pattern}`: `$` before a line feed, or `^` behind one, is not read as by nginx"
        ));
    }
    Expression::new(pattern, false).map(drop).map_err(|why| format!("`{pattern}` is not supported: {why}"))
}

/// For texts that are known now; expressions that have to go back are not.
pub(super) fn compile(pattern: &str) -> Option<regex::Regex> {
    let translated = pcre::translate(pattern, pcre::Units::Characters).ok()?;
    regex::Regex::new(&translated.pattern).ok()
}
