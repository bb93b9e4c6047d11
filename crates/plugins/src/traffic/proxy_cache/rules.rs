//! What a shared cache may keep, for whom, and for how long: RFC 9111. Both strategies ask [`permit`].
//!
//! Stricter than the standard: what `no-cache` or `private` names fields for is not kept at all. Looser, because the
//! configuration says so: `cache_http_status` lists statuses and `cache_ttl` a lifetime for answers that have none.

use std::time::UNIX_EPOCH;

use tidegate_protocol::Head;

use crate::common::clock::unix_seconds;

/// The directives of a `Cache-Control` field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Directives {
    pub(crate) no_store: bool,
    pub(crate) no_cache: bool,
    pub private: bool,
    pub(crate) must_understand: bool,
    pub(crate) only_if_cached: bool,
    /// It may be kept although the request was authenticated (section 3.5).
    pub(crate) for_all: bool,
    pub max_age: Option<f64>,
    pub(crate) s_maxage: Option<f64>,
    pub(crate) max_stale: Option<f64>,
    pub(crate) min_fresh: Option<f64>,
}

impl Directives {
    pub(super) fn of(headers: &Head) -> Directives {
        let mut directives = Directives::default();
        for line in headers.get_all("Cache-Control") {
            let line = String::from_utf8_lossy(line).to_ascii_lowercase();
            // What forbids counts wherever it stands, also behind a quote that does not end.
            directives.no_store |= line.contains("no-store");
            directives.no_cache |= line.contains("no-cache");
            directives.private |= line.contains("private");
            directives.must_understand |= line.contains("must-understand");
            items(&line).for_each(|item| directives.read(item));
        }
        directives
    }

    /// Of a request: HTTP/1.0 clients say it in `Pragma` (section 5.4).
    pub(super) fn of_request(headers: &Head) -> Directives {
        let mut directives = Directives::of(headers);
        if !headers.contains("Cache-Control") {
            let mut lines = headers.get_all("Pragma");
            directives.no_cache |=
                lines.any(|line| String::from_utf8_lossy(line).to_ascii_lowercase().contains("no-cache"));
        }
        directives
    }

    /// What allows counts only where it is well formed. Of two lifetimes the shorter one holds, and what is not a number
    /// counts as 0 (section 4.2.1).
    fn read(&mut self, item: &str) {
        let (name, value) = item.split_once('=').map_or((item, None), |(name, value)| (name, Some(value)));
        let seconds = value.and_then(seconds);
        let shorter = |known: Option<f64>| {
            let said = seconds.unwrap_or(0.0);
            Some(known.map_or(said, |known| known.min(said)))
        };
        match name.trim() {
            "public" | "must-revalidate" => self.for_all = true,
            "max-age" => self.max_age = shorter(self.max_age),
            "s-maxage" => {
                self.for_all |= seconds.is_some();
                self.s_maxage = shorter(self.s_maxage);
            }
            "only-if-cached" => self.only_if_cached = true,
            "max-stale" => self.max_stale = seconds,
            "min-fresh" => self.min_fresh = seconds,
            _ => {}
        }
    }

    /// The answer must not be kept for others.
    fn forbids_storing(&self) -> bool {
        self.private || self.no_store || self.no_cache
    }
}

/// Pieces between commas, those inside of quotes aside.
fn items(line: &str) -> impl Iterator<Item = &str> {
    let mut quoted = false;
    line.split(move |c: char| {
        quoted ^= c == '"';
        c == ',' && !quoted
    })
}

/// `10` or `"10"`. More digits than a number has are a very long time.
fn seconds(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap_or(text);
    let sound = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    sound.then(|| f64::from(digits.parse::<i32>().unwrap_or(i32::MAX)))
}

/// What a request says about keeping its answer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Asked {
    /// It identified a client, and nothing in the key distinguishes that client from others.
    pub credentials: bool,
    pub(crate) no_store: bool,
}

/// Answers that a cache can keep without knowing more than HTTP itself.
const UNDERSTOOD: [u16; 12] = [200, 203, 204, 300, 301, 302, 307, 308, 404, 405, 410, 414];

/// How old an answer is as it comes, and how long it stays fresh from now on; `None`: it says nothing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Permit {
    pub age: f64,
    pub(crate) fresh_for: Option<f64>,
}

/// Whether an answer may be kept (section 3). `accelerated`: the upstream has instructed this cache alone, with
/// `X-Accel-Expires`.
pub(super) fn permit(asked: Asked, status: u16, headers: &Head, accelerated: bool) -> Option<Permit> {
    let directives = Directives::of(headers);
    // Parts of answers and answers to conditions are of no use to others.
    let whole = !matches!(status, 206 | 304) && !headers.contains("Content-Range");
    let forbidden = asked.no_store
        || (asked.credentials && !directives.for_all)
        || (directives.forbids_storing() && !accelerated)
        || (directives.must_understand && !UNDERSTOOD.contains(&status));
    if !whole || forbidden {
        return None;
    }
    let age = headers.get_str("Age").and_then(seconds).unwrap_or(0.0);
    Some(Permit { age, fresh_for: fresh_for(headers, &directives, age) })
}

fn fresh_for(headers: &Head, directives: &Directives, age: f64) -> Option<f64> {
    if let Some(lifetime) = directives.s_maxage.or(directives.max_age) {
        return Some(lifetime - age);
    }
    let time = |value: &[u8]| {
        let at = httpdate::parse_http_date(std::str::from_utf8(value).ok()?.trim()).ok()?;
        Some(at.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
    };
    // Of several, the last one counts; what is not a date has passed (section 5.3).
    let expires = time(headers.get_all("Expires").last()?).unwrap_or(0.0);
    let by_clock = expires - unix_seconds();
    let by_date = headers.get_all("Date").last().and_then(time).map(|date| expires - date - age);
    Some(by_date.map_or(by_clock, |by_date| by_clock.min(by_date)))
}

/// `X-Accel-Expires`, nginx's own field: seconds, or `@` and a moment.
pub(crate) fn accel_lifetime(headers: &Head) -> Option<f64> {
    let value = headers.get_str("X-Accel-Expires")?.trim();
    match value.strip_prefix('@') {
        Some(at) => seconds(at).map(|at| (at - unix_seconds()).max(0.0)),
        None => seconds(value),
    }
}

/// The fields of `Vary`, lower case and sorted; `None` for `*`, which fits no other request.
pub(super) fn vary(headers: &Head) -> Option<Vec<String>> {
    let mut fields = Vec::new();
    for line in headers.get_all("Vary") {
        for field in String::from_utf8_lossy(line).split(',') {
            match field.trim() {
                "*" => return None,
                "" => {}
                field => fields.push(field.to_ascii_lowercase()),
            }
        }
    }
    fields.sort();
    fields.dedup();
    Some(fields)
}

/// `no_cache` and `cache_bypass`: any text but `0` means yes.
pub(crate) fn says_yes(value: &[u8]) -> bool {
    !value.is_empty() && value != b"0"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(fields: &[(&str, &str)]) -> Head {
        let mut head = Head::new();
        for (name, value) in fields {
            head.add(name, value);
        }
        head
    }

    #[test]
    fn directives_that_forbid_count_wherever_they_stand() {
        let directives = Directives::of(&head(&[
            ("Cache-Control", "No-Store, max-age=10"),
            ("Cache-Control", "s-maxage=\"20\", min-fresh = x,private=\"set-cookie, x\""),
        ]));
        let expected = Directives {
            no_store: true,
            private: true,
            for_all: true,
            max_age: Some(10.0),
            s_maxage: Some(20.0),
            ..Directives::default()
        };
        assert_eq!(directives, expected);
        let open = Directives::of(&head(&[("Cache-Control", "x=\"open, no-store, public, max-age=9")]));
        assert_eq!(open, Directives { no_store: true, ..Directives::default() });
        let quoted = Directives::of(&head(&[("Cache-Control", "x=\"a, public\", max-age=1e3, max-age=5")]));
        assert_eq!(quoted, Directives { max_age: Some(0.0), ..Directives::default() });
    }

    #[test]
    fn lifetimes() {
        let cases = [
            (head(&[("Cache-Control", "max-age=10")]), Some(10.0)),
            (head(&[("Cache-Control", "max-age=10, s-maxage=5")]), Some(5.0)),
            (head(&[("Cache-Control", "max-age=10"), ("Age", "4")]), Some(6.0)),
            (head(&[("Cache-Control", "max-age=-1")]), Some(0.0)),
            (head(&[("Cache-Control", "max-age=99999999999")]), Some(f64::from(i32::MAX))),
            (head(&[]), None),
        ];
        for (headers, expected) in cases {
            let permit = permit(Asked::default(), 200, &headers, false).expect("may be kept");
            assert_eq!(permit.fresh_for, expected);
        }
        for expires in ["Thu, 01 Jan 1970 00:00:10 GMT", "0", ""] {
            let permit = permit(Asked::default(), 200, &head(&[("Expires", expires)]), false);
            assert!(permit.and_then(|permit| permit.fresh_for).is_some_and(|left| left < 0.0), "{expires}");
        }
        // The upstream's clock is ahead: its own two dates count.
        let ahead =
            head(&[("Date", "Thu, 01 Jan 2099 00:00:00 GMT"), ("Expires", "Thu, 01 Jan 2099 00:00:05 GMT")]);
        assert_eq!(permit(Asked::default(), 200, &ahead, false).and_then(|it| it.fresh_for), Some(5.0));
    }

    #[test]
    fn who_may_get_an_answer() {
        let allowed = |asked: Asked, status: u16, control: &str| {
            permit(asked, status, &head(&[("Cache-Control", control)]), false).is_some()
        };
        let anybody = Asked::default();
        let somebody = Asked { credentials: true, no_store: false };
        let cases = [
            (anybody, 200, "max-age=9", true),
            (anybody, 200, "no-store", false),
            (anybody, 200, "no-cache=\"x\"", false),
            (anybody, 200, "private=\"x\"", false),
            (anybody, 206, "max-age=9", false),
            (anybody, 304, "max-age=9", false),
            (anybody, 200, "must-understand, max-age=9", true),
            (anybody, 299, "must-understand, max-age=9", false),
            (somebody, 200, "max-age=9", false),
            (somebody, 200, "public", true),
            (somebody, 200, "must-revalidate, max-age=9", true),
            (somebody, 200, "s-maxage=9", true),
            (somebody, 200, "s-maxage=x", false),
            (somebody, 200, "x=\", public\"", false),
            (Asked { no_store: true, credentials: false }, 200, "public", false),
        ];
        for (asked, status, control, expected) in cases {
            assert_eq!(allowed(asked, status, control), expected, "{asked:?} {status} {control}");
        }
    }

    #[test]
    fn fields_to_vary_by() {
        let cases = [
            (head(&[]), Some(vec![])),
            (head(&[("Vary", "Origin, accept")]), Some(vec!["accept".to_owned(), "origin".to_owned()])),
            (head(&[("Vary", "Accept"), ("Vary", "*")]), None),
        ];
        for (headers, expected) in cases {
            assert_eq!(vary(&headers), expected);
        }
    }
}
