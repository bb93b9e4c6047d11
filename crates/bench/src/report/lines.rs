//! A run over time, a row for each slot: CSV for spreadsheets, JSON lines for everything else.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::{
    Outcome, Problem,
    outcome::{SlotFigures, latency::Latency},
};

const COLUMNS: &str = "seconds,answers,errors,mean_us,p50_us,p99_us,max_us";

/// Rows in the order of time; `seconds` is where a slot begins.
pub fn csv(outcome: &Outcome) -> String {
    let mut out = format!("{COLUMNS}\n");
    for (seconds, slot) in slots(outcome) {
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "{seconds:.1},{},{},{:.1},{:.1},{:.1},{:.1}",
            slot.count, slot.errors, slot.mean_us, slot.p50_us, slot.p99_us, slot.max_us
        );
    }
    out
}

/// As the CSV, then a line for each status, each URL and the run as a whole; `kind` distinguishes them.
pub fn json_lines(outcome: &Outcome) -> Result<String, Problem> {
    let mut lines: Vec<Value> = Vec::new();
    for (seconds, slot) in slots(outcome) {
        lines.push(json!({
            "kind": "slot", "seconds": (seconds * 10.0).round() / 10.0, "answers": slot.count,
            "errors": slot.errors, "mean_us": slot.mean_us, "p50_us": slot.p50_us, "p99_us": slot.p99_us,
            "max_us": slot.max_us,
        }));
    }
    for one in &outcome.by_status {
        lines.push(with(json!({"kind": "status", "status": one.status}), &one.latency));
    }
    for one in &outcome.by_url {
        let head = json!({"kind": "url", "request": one.request, "statuses": one.statuses});
        lines.push(with(head, &one.latency));
    }
    if let Some(grpc) = &outcome.grpc {
        lines.push(json!({"kind": "grpc", "statuses": grpc.statuses, "messages": grpc.messages}));
    }
    if let Some(events) = &outcome.events {
        let head = json!({
            "kind": "gaps", "events": events.count, "opened": events.opened, "ended": events.ended,
            "open": events.open, "longest_us": events.longest_us(),
        });
        lines.push(with(head, &events.gaps));
    }
    if let Some(websocket) = &outcome.websocket {
        let head = json!({"kind": "upgrades", "others": websocket.others});
        lines.push(with(head, &websocket.upgrades));
    }
    if let Some(visits) = &outcome.visits {
        lines.push(json!({"kind": "visits", "redirects": visits.redirects, "cookies": visits.cookies}));
    }
    let head = json!({
        "kind": "run", "url": outcome.url, "seconds": outcome.seconds,
        "requests_per_second": outcome.requests_per_second(), "failed": outcome.failed(),
        "bad_statuses": outcome.bad_statuses, "bytes_in": outcome.bytes_in, "bytes_out": outcome.bytes_out,
    });
    lines.push(with(head, outcome.seen()));
    let mut out = String::new();
    for line in lines {
        let text = serde_json::to_string(&line)
            .map_err(|error| Problem::failed(format!("cannot write the result as JSON lines: {error}")))?;
        out.push_str(&text);
        out.push('\n');
    }
    Ok(out)
}

fn with(mut head: Value, latency: &Latency) -> Value {
    let figures = json!({
        "answers": latency.count, "mean_us": latency.mean_us, "p50_us": latency.at(50.0),
        "p90_us": latency.at(90.0), "p95_us": latency.at(95.0), "p99_us": latency.at(99.0),
        "p999_us": latency.at(99.9), "max_us": latency.max_us,
    });
    if let (Some(head), Value::Object(figures)) = (head.as_object_mut(), figures) {
        head.extend(figures);
    }
    head
}

fn slots(outcome: &Outcome) -> impl Iterator<Item = (f64, &SlotFigures)> {
    let length = outcome.series.slot_ms as f64 / 1000.0;
    outcome.series.slots.iter().enumerate().map(move |(at, slot)| (at as f64 * length, slot))
}
