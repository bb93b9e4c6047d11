//! Dates and times as text: those of logs and of the `Date` header, formatted once per second, and any others.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{Local, TimeZone, Utc};

/// nginx's `$time_local`: `21/Nov/2026:03:28:02 +0000`.
pub const TIME_LOCAL: &str = "%d/%b/%Y:%H:%M:%S %z";
/// nginx's `$time_iso8601`: `2026-11-21T03:28:02+00:00`.
pub const TIME_ISO8601: &str = "%Y-%m-%dT%H:%M:%S%:z";
/// The form in HTTP fields: `Sat, 21 Nov 2026 03:28:02 GMT`.
pub const HTTP_DATE: &str = "%a, %d %b %Y %H:%M:%S GMT";
/// RFC 3339, in UTC with milliseconds: `2026-11-21T03:28:02.000Z`.
pub const RFC3339: &str = "%Y-%m-%dT%H:%M:%S%.3fZ";

/// Milliseconds since 1970.
pub fn unix_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// A time in UTC in a form of `strftime`. Empty where no calendar has the time.
pub fn utc(unix_ms: i64, form: &str) -> String {
    Utc.timestamp_millis_opt(unix_ms).single().map_or_else(String::new, |at| text(at.format(form)))
}

/// As [`utc`], in local time.
pub fn local(unix_ms: i64, form: &str) -> String {
    Local.timestamp_millis_opt(unix_ms).single().map_or_else(String::new, |at| text(at.format(form)))
}

fn text(value: impl std::fmt::Display) -> String {
    let mut text = String::new();
    write(&mut text, value);
    text
}

/// The current second in the forms logs and headers use. One per thread; refreshing within the same second
/// costs a comparison.
#[derive(Debug, Default)]
pub struct TimeStrings {
    unix_seconds: Option<u64>,
    time_local: String,
    time_iso8601: String,
    error_log: String,
    http_date: String,
}

impl TimeStrings {
    /// Formats the current second, unless it is formatted already.
    pub fn refresh(&mut self) -> &Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.at(now.as_secs())
    }

    /// As [`TimeStrings::refresh`], for a caller that knows the time (seconds since 1970).
    pub fn at(&mut self, unix_seconds: u64) -> &Self {
        if self.unix_seconds != Some(unix_seconds) {
            self.format(unix_seconds);
        }
        self
    }

    /// `21/Nov/2026:03:28:02 +0000`, nginx's `$time_local`.
    pub fn time_local(&self) -> &str {
        &self.time_local
    }

    /// `2026-11-21T03:28:02+00:00`, nginx's `$time_iso8601`.
    pub fn time_iso8601(&self) -> &str {
        &self.time_iso8601
    }

    /// `2026/11/21 03:28:02`, what nginx starts an error log line with.
    pub fn error_log(&self) -> &str {
        &self.error_log
    }

    /// `Sat, 21 Nov 2026 03:28:02 GMT`, for the `Date` header.
    pub fn http_date(&self) -> &str {
        &self.http_date
    }

    fn format(&mut self, unix_seconds: u64) {
        self.unix_seconds = Some(unix_seconds);
        let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
        let (Some(local), Some(utc)) =
            (Local.timestamp_opt(seconds, 0).single(), Utc.timestamp_opt(seconds, 0).single())
        else {
            return;
        };
        write(&mut self.time_local, local.format(TIME_LOCAL));
        write(&mut self.time_iso8601, local.format(TIME_ISO8601));
        write(&mut self.error_log, local.format("%Y/%m/%d %H:%M:%S"));
        write(&mut self.http_date, utc.format(HTTP_DATE));
    }
}

fn write(into: &mut String, value: impl std::fmt::Display) {
    into.clear();
    // It fails for a form that is not one; what there is stays.
    let _ = write!(into, "{value}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_follow_nginx() {
        let mut strings = TimeStrings::default();
        let strings = strings.at(1_700_000_000);
        assert_eq!(strings.http_date(), "Tue, 14 Nov 2023 22:13:20 GMT");
        let local = strings.time_local();
        assert!(local.contains("/Nov/2023:") && local.len() == 26, "{local}");
        assert_eq!(strings.time_iso8601().len(), 25);
        assert_eq!(strings.error_log().len(), 19);
        assert!(strings.error_log().starts_with("2023/11/1"));
        assert_eq!(super::local(1_700_000_000_000, TIME_LOCAL), local);
    }

    #[test]
    fn any_form() {
        assert_eq!(utc(1_700_000_000_120, RFC3339), "2023-11-14T22:13:20.120Z");
        assert_eq!(utc(1_700_000_000_000, HTTP_DATE), "Tue, 14 Nov 2023 22:13:20 GMT");
        assert_eq!(utc(i64::MAX, HTTP_DATE), "");
    }
}
