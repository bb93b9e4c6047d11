//! What may be cached and for how long: RFC 9111 as far as APISIX follows it.

use std::time::{SystemTime, UNIX_EPOCH};

use wire::Head;

use crate::common::clock::unix_seconds;

/// The directives of a `Cache-Control` field.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Directives {
    pub no_store: bool,
    pub no_cache: bool,
    pub private: bool,
    pub only_if_cached: bool,
    pub max_age: Option<f64>,
    pub s_maxage: Option<f64>,
    pub max_stale: Option<f64>,
    pub min_fresh: Option<f64>,
}

impl Directives {
    pub fn of(headers: &Head) -> Directives {
        let mut directives = Directives::default();
        for line in headers.get_all("Cache-Control") {
            for item in line.split(|&byte| byte == b',') {
                let item = String::from_utf8_lossy(item);
                let (name, value) = item.split_once('=').map_or((&*item, None), |(n, v)| (n, Some(v)));
                let value = value.and_then(|value| value.trim().trim_matches('"').parse::<f64>().ok());
                match name.trim().to_ascii_lowercase().as_str() {
                    "no-store" => directives.no_store = true,
                    "no-cache" => directives.no_cache = true,
                    "private" => directives.private = true,
                    "only-if-cached" => directives.only_if_cached = true,
                    "max-age" => directives.max_age = value,
                    "s-maxage" => directives.s_maxage = value,
                    "max-stale" => directives.max_stale = value,
                    "min-fresh" => directives.min_fresh = value,
                    _ => {}
                }
            }
        }
        directives
    }

    /// The answer must not be kept for others.
    pub fn forbids_storing(&self) -> bool {
        self.private || self.no_store || self.no_cache
    }
}

/// Seconds that an answer says it is fresh; `None` when it says nothing.
pub fn lifetime(headers: &Head, directives: &Directives) -> Option<f64> {
    if let Some(age) = directives.s_maxage.or(directives.max_age) {
        return Some(age.max(0.0));
    }
    // Of several, the last one counts.
    let expires = headers.get_all("Expires").last()?;
    let at = httpdate::parse_http_date(std::str::from_utf8(expires).ok()?.trim());
    let at = at.unwrap_or(SystemTime::UNIX_EPOCH).duration_since(UNIX_EPOCH).ok()?;
    Some((at.as_secs_f64() - unix_seconds()).max(0.0))
}

/// `X-Accel-Expires`, nginx's own field: seconds, or `@` and a moment.
pub fn accel_lifetime(headers: &Head) -> Option<f64> {
    let value = headers.get_str("X-Accel-Expires")?.trim();
    match value.strip_prefix('@') {
        Some(at) => at.parse::<f64>().ok().map(|at| (at - unix_seconds()).max(0.0)),
        None => value.parse().ok(),
    }
}

/// The fields of `Vary`, lower case and sorted; `None` for `*`, which fits no other request.
pub fn vary(headers: &Head) -> Option<Vec<String>> {
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
pub fn says_yes(value: &[u8]) -> bool {
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
    fn directives_are_read_leniently() {
        let directives = Directives::of(&head(&[
            ("Cache-Control", "No-Store, max-age=10"),
            ("Cache-Control", "s-maxage=\"20\", min-fresh = x,private"),
        ]));
        let expected = Directives {
            no_store: true,
            private: true,
            max_age: Some(10.0),
            s_maxage: Some(20.0),
            ..Directives::default()
        };
        assert_eq!(directives, expected);
    }

    #[test]
    fn lifetimes() {
        let cases = [
            (head(&[("Cache-Control", "max-age=10")]), Some(10.0)),
            (head(&[("Cache-Control", "max-age=10, s-maxage=5")]), Some(5.0)),
            (head(&[("Expires", "Thu, 01 Jan 1970 00:00:10 GMT")]), Some(0.0)),
            (head(&[("Expires", "0")]), Some(0.0)),
            (head(&[]), None),
        ];
        for (headers, expected) in cases {
            assert_eq!(lifetime(&headers, &Directives::of(&headers)), expected);
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
