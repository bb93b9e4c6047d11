//! `windows`: quotas for periods of the clock that count together. A request that one of them refuses counts in none.
//!
//! The headers are those of the draft `RateLimit-*`, which describe the quota with the least left, and a pair for
//! each period: `X-RateLimit-Limit-Minute`. Not in APISIX; what is converted from Kong needs it.

use chrono::{DateTime, Datelike, NaiveTime};
use serde_json::{Map, Value};
use smallvec::SmallVec;
use tidegate_plugin_api::{Request, Step};

use super::{
    counters::{Counters, Quota, Taken},
    counting::{Counting, NO_DELAY, info},
};
use crate::common::{
    clock::{monotonic_seconds, unix_seconds},
    limit_key::LimitKey,
    number,
};
use tidegate_plugin_api::{
    step::Verdict,
    variables::{RATE_LIMITING_INFO, wants_rate_limiting_info},
};
use tidegate_telemetry::error_log;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Period {
    Second,
    Minute,
    Hour,
    Day,
    Month,
    Year,
}

/// Name, name in headers, and nominal length in seconds; shortest first.
const PERIODS: [(Period, &str, &str, f64); 6] = [
    (Period::Second, "second", "Second", 1.0),
    (Period::Minute, "minute", "Minute", 60.0),
    (Period::Hour, "hour", "Hour", 3_600.0),
    (Period::Day, "day", "Day", 86_400.0),
    (Period::Month, "month", "Month", 2_592_000.0),
    (Period::Year, "year", "Year", 31_536_000.0),
];

impl Period {
    /// When the one that `now` is in began: seconds since 1970, in UTC.
    fn start(self, now: i64) -> i64 {
        let seconds = match self {
            Period::Second => 1,
            Period::Minute => 60,
            Period::Hour => 3_600,
            Period::Day => 86_400,
            Period::Month | Period::Year => return self.calendar_start(now).unwrap_or(0),
        };
        now - now.rem_euclid(seconds)
    }

    fn calendar_start(self, now: i64) -> Option<i64> {
        let today = DateTime::from_timestamp(now, 0)?.date_naive();
        let first = match self {
            Period::Year => today.with_ordinal(1)?,
            _ => today.with_day(1)?,
        };
        Some(first.and_time(NaiveTime::MIN).and_utc().timestamp())
    }
}

struct Window {
    period: Period,
    name: &'static str,
    limit: f64,
    seconds: f64,
    limit_header: String,
    remaining_header: String,
}

impl Window {
    fn at(&self, now: i64, base: &[u8]) -> Current<'_> {
        let start = self.period.start(now);
        let mut key = base.to_vec();
        key.extend_from_slice(format!(":{}:{start}", self.name).as_bytes());
        #[allow(clippy::cast_precision_loss)]
        let passed = (now - start) as f64;
        Current { window: self, key, left: (self.seconds - passed).max(1.0) }
    }
}

pub(super) struct Clock {
    windows: Vec<Window>,
    key: LimitKey,
}

/// One of the windows at the time of a request.
struct Current<'a> {
    window: &'a Window,
    key: Vec<u8>,
    /// Seconds until it ends; at least one.
    left: f64,
}

impl Current<'_> {
    fn quota(&self) -> Quota {
        Quota { limit: self.window.limit, window: self.window.seconds, sliding: false }
    }
}

/// What `windows` cannot go together with.
pub(super) fn check(conf: &Value) -> Result<(), String> {
    let by = conf.get("key_type").and_then(Value::as_str).unwrap_or_default();
    if conf.get("windows").is_none() {
        return match by {
            "credential" | "path" => Err(format!("key_type {by} is for windows")),
            _ => Ok(()),
        };
    }
    if conf.get("window_type").and_then(Value::as_str) == Some("sliding") {
        return Err("windows are of the clock, and cannot have window_type sliding".to_owned());
    }
    if conf.get("sync_interval").and_then(Value::as_f64).is_some_and(|interval| interval != NO_DELAY) {
        return Err("windows are counted at once, and cannot have a sync_interval".to_owned());
    }
    if conf.get("_vid").is_some() {
        return Err("windows are not supported".to_owned());
    }
    Ok(())
}

impl Clock {
    pub(super) fn new(windows: &Map<String, Value>, key: &str, key_type: &str) -> Clock {
        let window = |(period, name, title, seconds): &(Period, &'static str, &str, f64)| {
            Some(Window {
                period: *period,
                name,
                limit: windows.get(*name)?.as_f64()?,
                seconds: *seconds,
                limit_header: format!("X-RateLimit-Limit-{title}"),
                remaining_header: format!("X-RateLimit-Remaining-{title}"),
            })
        };
        Clock { windows: PERIODS.iter().filter_map(window).collect(), key: LimitKey::new(key, key_type) }
    }

    fn current(&self, counting: &Counting, request: &Request, now: f64) -> SmallVec<[Current<'_>; 2]> {
        let (form, prefix) = counting.form("plugin-limit-count:clock:");
        let Some(base) = counting.scope.key(&self.key, request, form, prefix) else { return SmallVec::new() };
        // Whole seconds since 1970 fit.
        #[allow(clippy::cast_possible_truncation)]
        let now = now as i64;
        self.windows.iter().map(|window| window.at(now, &base)).collect()
    }

    /// Takes `cost` from the quotas of all windows, or of none.
    pub(super) fn limit<'a>(
        &'a self,
        counting: &'a Counting,
        request: &'a mut Request,
        cost: f64,
    ) -> Step<'a> {
        let current = self.current(counting, request, unix_seconds());
        if counting.is_in_memory() {
            let now = monotonic_seconds(tidegate_plugin_api::poll_clock::now());
            let take = |cost: f64| -> Vec<Taken> {
                let one = |one: &Current| Counters::global().take(&one.key, one.quota(), cost, now);
                current.iter().map(one).collect()
            };
            let taken = take(cost);
            let refused = taken.iter().any(|taken| !taken.allowed);
            if refused {
                take(-cost);
            }
            return answer(counting, request, &current, &taken, refused.then_some(cost)).into();
        }
        Step::wait(async move {
            let asked = take_all(counting, &current, cost);
            let Some(taken) = counting.ask(request, asked).await? else { return Ok(()) };
            let refused = taken.iter().any(|taken| !taken.allowed);
            if refused && let Err(reason) = take_all(counting, &current, -cost).await {
                error_log::log(
                    error_log::Level::Error,
                    format_args!("a refused request stays counted: {reason}"),
                );
            }
            answer(counting, request, &current, &taken, refused.then_some(cost))
        })
    }
}

async fn take_all(counting: &Counting, current: &[Current<'_>], cost: f64) -> Result<Vec<Taken>, String> {
    let mut all = Vec::with_capacity(current.len());
    for one in current {
        all.push(counting.take_from_redis(&one.key, one.quota(), cost).await?);
    }
    Ok(all)
}

/// `given_back`: the request is refused, and so much is no longer counted.
fn answer(
    counting: &Counting,
    request: &mut Request,
    current: &[Current],
    taken: &[Taken],
    given_back: Option<f64>,
) -> Verdict {
    let left = |taken: &Taken| match given_back {
        Some(cost) if taken.allowed => taken.remaining + cost,
        _ => taken.remaining.max(0.0),
    };
    let windows = || current.iter().zip(taken).map(|(one, taken)| (one, left(taken)));
    // The longest of those that have the least left.
    let least = windows().reduce(|best, next| if next.1 <= best.1 { next } else { best });
    if let Some((one, remaining)) = &least {
        if wants_rate_limiting_info() {
            let allowed = given_back.is_none();
            let taken = Taken { allowed, remaining: *remaining, reset_seconds: one.left };
            request.set_variable(RATE_LIMITING_INFO, info(&one.key, one.window.limit, &taken));
        }
        if counting.show_headers {
            let headers = &mut request.early_headers;
            headers.set("RateLimit-Limit", number::lua(one.window.limit));
            headers.set("RateLimit-Remaining", number::lua(*remaining));
            headers.set("RateLimit-Reset", number::lua(one.left));
            if given_back.is_some() {
                headers.set("Retry-After", number::lua(one.left));
            }
            for (one, remaining) in windows() {
                headers.set(&one.window.limit_header, number::lua(one.window.limit));
                headers.set(&one.window.remaining_header, number::lua(remaining));
            }
        }
    }
    match given_back {
        None => Ok(()),
        Some(_) => Err(counting.refusal()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_begin_with_the_clock_s() {
        // 2024-02-29 12:34:56 UTC
        let now = 1_709_210_096;
        for (period, start) in [
            (Period::Second, 1_709_210_096),
            (Period::Minute, 1_709_210_040),
            (Period::Hour, 1_709_208_000),
            (Period::Day, 1_709_164_800),
            (Period::Month, 1_706_745_600),
            (Period::Year, 1_704_067_200),
        ] {
            assert_eq!(period.start(now), start, "{period:?}");
        }
    }
}
