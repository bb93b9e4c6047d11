//! A run as Markdown, for issues and pull requests.

use std::fmt::Write;

use super::{
    beyond,
    units::{bytes, count, time},
};
use crate::{Outcome, outcome::latency::Latency};

/// Headings, tables and the findings.
pub fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let machine = &outcome.machine;
    writeln!(out, "### `{}`\n", outcome.url.replace('`', "'"))?;
    let model = outcome.model();
    writeln!(
        out,
        "{}, {} connections, {} threads, {model}, {:.1} s. {}, {} CPUs, {}.\n",
        outcome.protocol,
        outcome.connections,
        outcome.threads,
        outcome.seconds,
        machine.cpu,
        machine.cpus,
        machine.kernel
    )?;
    writeln!(out, "| | |\n|---|---|")?;
    let mut row = |name: &str, value: String| writeln!(out, "| {name} | {value} |");
    row("requests/s", format!("{:.0}", outcome.requests_per_second()))?;
    row("requests", count(outcome.requests))?;
    row("failed", count(outcome.failed()))?;
    row("bad statuses", count(outcome.bad_statuses))?;
    row("received", bytes(outcome.bytes_in as f64))?;
    beyond::rows(outcome).into_iter().try_for_each(|(name, value)| row(name, value))?;
    if let Some(each) = outcome.server_cpu_us() {
        row("server CPU per request", format!("{each:.2} us"))?;
    }
    writeln!(out)?;
    latencies(out, outcome)?;
    for finding in &outcome.findings {
        writeln!(out, "\n**{}** (`{}`)\n", finding.title, finding.name)?;
        finding.evidence.iter().try_for_each(|line| writeln!(out, "- {line}"))?;
        writeln!(out, "- remedy: {}", finding.remedy)?;
    }
    Ok(())
}

fn latencies(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    let mut columns: Vec<(&str, &Latency)> = vec![("latency", &outcome.latency)];
    if let Some(corrected) = &outcome.corrected {
        columns = vec![("corrected", corrected), ("raw", &outcome.latency)];
    }
    let names: Vec<&str> = columns.iter().map(|(name, _)| *name).collect();
    writeln!(out, "| percentile | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()))?;
    for percent in crate::outcome::latency::SHOWN {
        let values: Vec<String> = columns.iter().map(|(_, latency)| time(latency.at(percent))).collect();
        writeln!(out, "| {percent} | {} |", values.join(" | "))?;
    }
    Ok(())
}
