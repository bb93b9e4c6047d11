//! Figures over time.

use serde_json::{Value, json};

use super::{
    build::{Operation, Paths},
    fragments::object,
};
use crate::api::stats::{MOST_TOP, RANGES, USUAL_TOP};

fn number() -> Value {
    json!({"type": ["number", "null"]})
}

fn count() -> Value {
    json!({"type": "integer"})
}

/// A figure for each time; `null` where the gateway did not run.
fn list() -> Value {
    json!({"type": "array", "items": {"type": ["number", "null"]}})
}

fn status(of: &dyn Fn() -> Value) -> Value {
    object(&["1xx", "2xx", "3xx", "4xx", "5xx"].map(|class| (class, of())))
}

fn share() -> [(&'static str, Value); 4] {
    [("requests", count()), ("status_4xx", count()), ("status_5xx", count()), ("mean_ms", number())]
}

fn shares() -> Value {
    let id = ("id", json!({"type": "string", "description": "Empty: without a route"}));
    let one: Vec<(&str, Value)> = [id].into_iter().chain(share()).collect();
    json!({"type": ["array", "null"], "items": object(&one)})
}

fn others() -> Value {
    let mut others = object(&share());
    others["type"] = json!(["object", "null"]);
    others
}

fn add_traffic(paths: &mut Paths) {
    let text = || json!({"type": "string"});
    let events = json!({
        "description": "Events `request`, at first `slowest` and `failed` of those that are kept, and `missed` with how many were not shown",
        "content": {"text/event-stream": {"schema": text()}},
    });
    let number = |least: u32, most: u32| json!({"type": "integer", "minimum": least, "maximum": most});
    let operation = Operation::admin("watchTraffic", "Control", "Requests as they end, as server-sent events")
        .description(
            "At most 200 a second are shown, and as many that failed with 5xx; 20 may look at a time. Credentials are masked. A stream ends after a \
             minute, when a client asks again.",
        )
        .query("route", "Only of this route", text())
        .query("consumer", "Only of this consumer; not for viewers without `consumer_names`", text())
        .query("status", "Only with this status, or of this class", json!({"type": "string", "pattern": "^[1-5]([0-9]{2}|xx)$"}))
        .query("min_ms", "Only those that took at least as long", number(0, u32::MAX))
        .query("seconds", "The end of the stream (60)", number(0, 60))
        .response(200, events);
    paths.add("/apisix/admin/traffic", "get", operation);
}

pub(super) fn add(paths: &mut Paths) {
    let ranges = RANGES.map(|(name, _)| name);
    let summary = "Requests, errors and latencies over time, and who has most of them";
    let operation = Operation::admin("getStats", "Control", summary)
        .description(
            "Statuses, latencies, routes and consumers are those that plugin prometheus counts. `consumers` is null for viewers \
             without `consumer_names`.",
        )
        .query("range", "How far back (1h)", json!({"enum": ranges}))
        .query(
            "top",
            &format!("Routes and consumers that are named ({USUAL_TOP})"),
            json!({"type": "integer", "minimum": 1, "maximum": MOST_TOP}),
        )
        .json(200, "The figures", figures());
    paths.add("/apisix/admin/stats", "get", operation);
    add_traffic(paths);
}

fn figures() -> Value {
    let totals = object(&[
        ("requests", json!({"type": "integer", "description": "Begun, of all routes"})),
        ("counted", json!({"type": "integer", "description": "Ended, where plugin prometheus runs"})),
        ("status", status(&count)),
        ("mean_ms", number()),
        ("p50_ms", number()),
        ("p95_ms", number()),
        ("p99_ms", number()),
        ("ingress_bytes", count()),
        ("egress_bytes", count()),
    ]);
    let latency = object(&[
        ("bounds_ms", json!({"type": "array", "items": {"type": "integer"}})),
        (
            "counts",
            json!({"type": "array", "items": {"type": ["array", "null"], "items": {"type": "integer"}}}),
        ),
    ]);
    let node = object(&[
        ("upstream", json!({"type": "string"})),
        ("host", json!({"type": "string"})),
        ("port", count()),
    ]);
    let nodes = object(&[("checked", count()), ("unhealthy", json!({"type": "array", "items": node}))]);
    let certificate = object(&[
        ("ssl", json!({"type": "string"})),
        ("name", json!({"type": "string"})),
        ("expires", json!({"type": "integer", "description": "In seconds since 1970"})),
    ]);
    let certificates = object(&[
        ("total", json!({"type": "integer", "description": "Certificates that end within 30 days"})),
        ("list", json!({"type": "array", "items": certificate})),
    ]);
    let kept = object(&[
        ("bytes", count()),
        ("problem", json!({"type": ["string", "null"], "description": "Why the figures are not kept"})),
    ]);
    object(&[
        ("range_s", count()),
        ("from", json!({"type": "integer", "description": "Of the first time, in seconds since 1970"})),
        ("to", count()),
        ("step", json!({"type": "integer", "description": "Seconds of each time"})),
        ("requests", list()),
        ("counted", list()),
        ("status", status(&list)),
        ("mean_ms", list()),
        ("latency", latency),
        ("ingress_bytes", list()),
        ("egress_bytes", list()),
        ("totals", totals),
        ("routes", shares()),
        ("other_routes", others()),
        ("consumers", shares()),
        ("other_consumers", others()),
        ("nodes", nodes),
        ("certificates", certificates),
        ("kept", kept),
    ])
}
