//! Conditional requests in the order of RFC 9110 section 13.2.2, and `If-Range` (section 13.1.5).

use std::time::{Duration, SystemTime};

use tidegate_protocol::{Head, HeaderId};

/// What identifies the version of a file.
pub(crate) struct Validators<'a> {
    /// With its quotes; always a strong one.
    pub etag: &'a [u8],
    /// Whole seconds, as `Last-Modified` says it.
    pub modified: SystemTime,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Precondition {
    /// Answer as if nothing had been asked.
    Send,
    /// 304
    NotModified,
    /// 412
    Failed,
}

/// For GET and HEAD of something that exists.
pub(crate) fn evaluate(headers: &Head, validators: &Validators) -> Precondition {
    let date = |name: &str| headers.get(name).and_then(parse_date);
    if headers.contains("If-Match") {
        if !lists(headers, "If-Match", validators.etag, false) {
            return Precondition::Failed;
        }
    } else if date("If-Unmodified-Since").is_some_and(|limit| validators.modified > limit) {
        return Precondition::Failed;
    }
    if headers.known(HeaderId::IfNoneMatch).is_some() {
        if lists(headers, "If-None-Match", validators.etag, true) {
            return Precondition::NotModified;
        }
    } else if headers
        .known(HeaderId::IfModifiedSince)
        .and_then(parse_date)
        .is_some_and(|limit| validators.modified <= limit)
    {
        return Precondition::NotModified;
    }
    Precondition::Send
}

/// Whether `Range` counts: the client's part is of this version.
pub(crate) fn range_applies(headers: &Head, validators: &Validators, now: SystemTime) -> bool {
    let Some(value) = headers.get("If-Range").map(<[u8]>::trim_ascii) else { return true };
    if value.starts_with(b"\"") || value.starts_with(b"W/") {
        return value == validators.etag;
    }
    // A date identifies a version only if no other one can have been made in the same second.
    let settled = validators.modified + Duration::from_secs(1) <= now;
    settled && parse_date(value) == Some(validators.modified)
}

/// Whether a list of entity tags, or `*`, has this one. A weak comparison takes weak tags, too.
fn lists(headers: &Head, name: &str, etag: &[u8], weak: bool) -> bool {
    headers.get_all(name).any(|line| {
        let mut rest = line.trim_ascii();
        if rest == b"*" {
            return true;
        }
        loop {
            rest = rest.trim_ascii_start();
            let (is_weak, opaque) = match rest.strip_prefix(b"W/") {
                Some(after) => (true, after),
                None => (false, rest),
            };
            // A comma may stand inside the quotes.
            let Some(end) = opaque.strip_prefix(b"\"").and_then(|inner| memchr::memchr(b'"', inner)) else {
                return false;
            };
            let (tag, after) = opaque.split_at(end + 2);
            if tag == etag && (weak || !is_weak) {
                return true;
            }
            let Some(next) = after.trim_ascii_start().strip_prefix(b",") else { return false };
            rest = next;
        }
    })
}

fn parse_date(value: &[u8]) -> Option<SystemTime> {
    httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        for (name, value) in fields {
            head.add(name, value);
        }
        head
    }

    fn validators() -> Validators<'static> {
        Validators { etag: b"\"a\"", modified: httpdate::parse_http_date(DATE).unwrap() }
    }

    #[test]
    fn the_order_of_the_rfc_holds() {
        let check = |fields: &[(&str, &str)], expected: Precondition| {
            assert_eq!(evaluate(&head(fields), &validators()), expected, "{fields:?}");
        };
        use Precondition::{Failed, NotModified, Send};
        check(&[], Send);
        check(&[("If-Match", "\"a\"")], Send);
        check(&[("If-Match", "\"b\", \"a\"")], Send);
        check(&[("If-Match", "*")], Send);
        check(&[("If-Match", "W/\"a\"")], Failed);
        check(&[("If-Match", "\"b\"")], Failed);
        check(&[("If-Match", "a")], Failed);
        check(&[("If-Match", "\"a\""), ("If-Unmodified-Since", BEFORE)], Send);
        check(&[("If-Unmodified-Since", BEFORE)], Failed);
        check(&[("If-Unmodified-Since", DATE)], Send);
        check(&[("If-Unmodified-Since", "yesterday")], Send);
        check(&[("If-None-Match", "\"a\"")], NotModified);
        check(&[("If-None-Match", "W/\"a\"")], NotModified);
        check(&[("If-None-Match", "\"x,y\", \"a\"")], NotModified);
        check(&[("If-None-Match", "*")], NotModified);
        check(&[("If-None-Match", "\"b\"")], Send);
        check(&[("If-None-Match", "\"b\""), ("If-Modified-Since", AFTER)], Send);
        check(&[("If-None-Match", "\"b\""), ("If-None-Match", "\"a\"")], NotModified);
        check(&[("If-Modified-Since", DATE)], NotModified);
        check(&[("If-Modified-Since", AFTER)], NotModified);
        check(&[("If-Modified-Since", BEFORE)], Send);
        check(&[("If-Modified-Since", "0")], Send);
        check(&[("If-Match", "\"b\""), ("If-None-Match", "\"a\"")], Failed);
        check(&[("If-Match", "\"a\""), ("If-None-Match", "\"a\"")], NotModified);
    }

    #[test]
    fn if_range_wants_the_same_version_for_sure() {
        let check = |value: &str, after: u64, expected: bool| {
            let now = validators().modified + Duration::from_secs(after);
            assert_eq!(range_applies(&head(&[("If-Range", value)]), &validators(), now), expected, "{value}");
        };
        check("\"a\"", 0, true);
        check("W/\"a\"", 0, false);
        check("\"b\"", 0, false);
        check(DATE, 10, true);
        check(DATE, 0, false);
        check(AFTER, 10, false);
        check(BEFORE, 10, false);
        check("nonsense", 10, false);
        assert!(range_applies(&Head::new(), &validators(), SystemTime::now()));
    }
}
