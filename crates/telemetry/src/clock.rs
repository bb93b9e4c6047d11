//! Time as logs show it, formatted once per second.

use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

use chrono::{Local, TimeZone, Utc};

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
        write(&mut self.time_local, local.format("%d/%b/%Y:%H:%M:%S %z"));
        write(&mut self.time_iso8601, local.format("%Y-%m-%dT%H:%M:%S%:z"));
        write(&mut self.error_log, local.format("%Y/%m/%d %H:%M:%S"));
        write(&mut self.http_date, utc.format("%a, %d %b %Y %H:%M:%S GMT"));
    }
}

fn write(into: &mut String, value: impl std::fmt::Display) {
    into.clear();
    // Writing to a String cannot fail.
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
    }
}
