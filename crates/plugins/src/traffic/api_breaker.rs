//! Answers in the upstream's place while it keeps failing.
//!
//! Failures are counted per host and path, whatever the route, as in APISIX. The pause doubles with each further
//! `unhealthy.failures` failures: 2, 4, 8 … seconds, at most `max_breaker_sec`.

use std::{
    sync::{Arc, LazyLock},
    time::Instant,
};

use serde::Deserialize;
use serde_json::Value;
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Template, Why, location,
};

use crate::common::{
    clock::monotonic_seconds,
    conf::typed,
    shards::{Forgettable, Key, Shards},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "api-breaker",
    version: 0.1,
    priority: 1005,
    schema: include_str!("api_breaker.json"),
    phases: Phases::ACCESS.and(Phases::LOG),
    headers: &[("break_response_headers[].key", Text::Name), ("break_response_headers[].value", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    break_response_code: u16,
    break_response_body: Option<String>,
    break_response_headers: Option<Vec<Header>>,
    max_breaker_sec: f64,
    unhealthy: Unhealthy,
    healthy: Healthy,
}

#[derive(Deserialize)]
struct Header {
    key: String,
    value: String,
}

#[derive(Deserialize)]
struct Unhealthy {
    http_statuses: Vec<u16>,
    failures: u32,
}

#[derive(Deserialize)]
struct Healthy {
    http_statuses: Vec<u16>,
    successes: u32,
}

/// How an endpoint has been doing. Missing: healthy.
#[derive(Debug, Default)]
struct Endpoint {
    failures: u32,
    successes: u32,
    /// Whole seconds, as APISIX's clock; when `failures` last reached a multiple of the limit.
    tripped: Option<f64>,
    last_failure: f64,
}

impl Forgettable for Endpoint {
    /// A day without a failure.
    fn is_stale(&self, now: f64) -> bool {
        self.last_failure + 86_400.0 < now
    }

    fn worth(&self) -> f64 {
        self.last_failure
    }
}

static ENDPOINTS: LazyLock<Shards<Endpoint>> = LazyLock::new(|| Shards::new("api-breaker"));

struct ApiBreaker {
    status: u16,
    body: Option<bytes::Bytes>,
    headers: Vec<(String, Template)>,
    max_breaker_seconds: f64,
    unhealthy: Unhealthy,
    healthy: Healthy,
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let headers = conf.break_response_headers.unwrap_or_default();
    Ok(Arc::new(ApiBreaker {
        status: conf.break_response_code,
        body: conf.break_response_body.map(Into::into),
        headers: headers.into_iter().map(|h| (h.key, Template::compile(&h.value))).collect(),
        max_breaker_seconds: conf.max_breaker_sec,
        unhealthy: conf.unhealthy,
        healthy: conf.healthy,
    }))
}

fn endpoint_key(request: &Request) -> Key {
    let mut key = Vec::with_capacity(request.host.len() + request.path.len());
    key.extend_from_slice(&request.host);
    key.extend_from_slice(&request.path);
    Key::new(&key)
}

fn now_seconds() -> f64 {
    monotonic_seconds(Instant::now()).floor()
}

impl Plugin for ApiBreaker {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        if self.is_open_for(request) != Some(true) {
            return Step::Next;
        }
        let Some(body) = &self.body else { return Step::reply(Reply::page(self.status)) };
        let mut reply = Reply::bytes(self.status, body.clone());
        for (name, value) in &self.headers {
            let Some(value) = location::field(name, value, request) else { continue };
            // There is one type: the last one counts.
            if name.eq_ignore_ascii_case("content-type") {
                reply.headers.remove(name);
            }
            reply = reply.header(name, value);
        }
        Step::reply(reply)
    }

    fn log(&self, request: &mut Request) {
        let Some(attempt) = request.outcome.attempts.last() else { return };
        let status = match attempt.status {
            // No response: the status that the client got instead.
            0 if request.response.status == 504 => 504,
            0 => 502,
            status => status,
        };
        if self.unhealthy.http_statuses.contains(&status) {
            let now = now_seconds();
            ENDPOINTS.edit(&endpoint_key(request), now, |endpoint| {
                record_failure(endpoint, self.unhealthy.failures, now);
            });
        } else if self.healthy.http_statuses.contains(&status) {
            ENDPOINTS.edit_or_remove(&endpoint_key(request), |endpoint| {
                endpoint.successes = endpoint.successes.saturating_add(1);
                endpoint.successes >= self.healthy.successes
            });
        }
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match self.is_open_for(request) {
            None => Foresight::Continues,
            Some(_) => Foresight::maybe(self.status, Why::Breaks),
        }
    }
}

impl ApiBreaker {
    /// `None`: nothing bad is known of the endpoint.
    fn is_open_for(&self, request: &Request) -> Option<bool> {
        ENDPOINTS.edit_existing(&endpoint_key(request), |endpoint| {
            is_open(endpoint, self.unhealthy.failures, self.max_breaker_seconds, now_seconds())
        })
    }
}

fn record_failure(endpoint: &mut Endpoint, limit: u32, now: f64) {
    endpoint.successes = 0;
    endpoint.failures = endpoint.failures.saturating_add(1);
    endpoint.last_failure = now;
    if endpoint.failures.is_multiple_of(limit) {
        endpoint.tripped = Some(now);
    }
}

fn is_open(endpoint: &Endpoint, limit: u32, max_seconds: f64, now: f64) -> bool {
    let Some(tripped) = endpoint.tripped else { return false };
    let times = (endpoint.failures / limit.max(1)).clamp(1, 32);
    let pause = 2f64.powi(times as i32).min(max_seconds);
    // APISIX also forgets the moment itself after max_breaker_sec.
    tripped + pause >= now && now - tripped < max_seconds
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_doubles_up_to_its_limit() {
        // (failures, limit of the pause, seconds since the last trip, open)
        let cases = [
            (3, 300.0, 2.0, true),
            (3, 300.0, 3.0, false),
            (6, 300.0, 4.0, true),
            (6, 300.0, 5.0, false),
            (9, 5.0, 4.0, true),
            (9, 5.0, 6.0, false),
            (3_000_000, 300.0, 299.0, true),
        ];
        for (failures, max_seconds, since, expected) in cases {
            let endpoint = Endpoint { failures, tripped: Some(100.0), ..Endpoint::default() };
            assert_eq!(is_open(&endpoint, 3, max_seconds, 100.0 + since), expected, "{failures} {since}");
        }
    }

    #[test]
    fn trips_on_each_multiple_of_the_limit() {
        let mut endpoint = Endpoint::default();
        let mut trips = Vec::new();
        for now in 1..=6 {
            record_failure(&mut endpoint, 3, f64::from(now));
            trips.push(endpoint.tripped);
        }
        assert_eq!(trips, [None, None, Some(3.0), Some(3.0), Some(3.0), Some(6.0)]);
    }
}
