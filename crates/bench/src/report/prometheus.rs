//! A run as metrics in Prometheus' text format, for a textfile collector or a push gateway.

mod beyond;
mod lines;

use std::fmt::{Result, Write};

use self::lines::{escape, head, summary};
use crate::{Outcome, outcome::ByStatus};

/// For the textfile collector of node_exporter.
pub fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> Result {
    let url = escape(&outcome.url);
    let url = format!("url=\"{url}\"");
    head(out, "requests", "gauge", "Answers of the run by status.")?;
    for (status, count) in &outcome.statuses {
        writeln!(out, "tidegate_bench_requests{{{url},status=\"{status}\"}} {count}")?;
    }
    head(out, "failures", "gauge", "Requests without an answer by kind.")?;
    writeln!(out, "tidegate_bench_failures{{{url},kind=\"any\"}} {}", outcome.failed())?;
    for (kind, count) in &outcome.failures {
        writeln!(out, "tidegate_bench_failures{{{url},kind=\"{}\"}} {count}", escape(kind))?;
    }
    let figures = [
        ("bad_statuses", "Answers with a status that is not accepted.", outcome.bad_statuses as f64),
        ("duration_seconds", "How long the run took.", outcome.seconds),
        ("requests_per_second", "Answers per second.", outcome.requests_per_second()),
        ("received_bytes", "Bytes received.", outcome.bytes_in as f64),
        ("sent_bytes", "Bytes sent.", outcome.bytes_out as f64),
        ("connections", "Connections of the run.", outcome.connections as f64),
        ("conditions_met", "Conditions of --fail-if that were met.", met(outcome) as f64),
    ];
    for (name, help, value) in figures {
        head(out, name, "gauge", help)?;
        writeln!(out, "tidegate_bench_{name}{{{url}}} {value}")?;
    }
    head(out, "latency_seconds", "summary", "Latency; with a rate from the moment a request was due.")?;
    summary(out, "latency_seconds", &url, outcome.seen())?;
    head(out, "first_byte_seconds", "summary", "Time from sending to the first byte of the answer.")?;
    summary(out, "first_byte_seconds", &url, &outcome.first_byte)?;
    beyond::write(out, &url, outcome)?;
    head(out, "status_latency_seconds", "summary", "Latency by status.")?;
    for ByStatus { status, latency } in &outcome.by_status {
        summary(out, "status_latency_seconds", &format!("{url},status=\"{status}\""), latency)?;
    }
    if !outcome.by_url.is_empty() {
        head(out, "request_latency_seconds", "summary", "Latency by method and path.")?;
    }
    for (at, one) in outcome.by_url.iter().enumerate() {
        // A request may stand twice in a list; the same labels may not.
        let labels = format!("{url},number=\"{at}\",request=\"{}\"", escape(&one.request));
        summary(out, "request_latency_seconds", &labels, &one.latency)?;
    }
    Ok(())
}

fn met(outcome: &Outcome) -> usize {
    outcome.verdicts.iter().filter(|verdict| verdict.failed).count()
}
