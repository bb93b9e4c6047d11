//! Latencies by status and by request, where there is more than one.

use std::fmt::Write;

use super::super::units::{count, time};
use crate::{
    Outcome,
    outcome::{ByUrl, latency::Latency},
};

/// Requests that are shown, those with the longest p99 first; the JSON has all.
const SHOWN_URLS: usize = 20;
/// Longer ones are cut.
const LONGEST_NAME: usize = 80;

pub(super) fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    if outcome.by_status.len() > 1 {
        head(out, "by status")?;
        for one in &outcome.by_status {
            let name = if one.status == 0 { "others".into() } else { one.status.to_string() };
            row(out, &name, &one.latency, "")?;
        }
    }
    if outcome.by_url.len() > 1 {
        urls(out, &outcome.by_url)?;
    }
    Ok(())
}

fn urls(out: &mut String, urls: &[ByUrl]) -> std::fmt::Result {
    head(out, "by URL")?;
    let mut sorted: Vec<&ByUrl> = urls.iter().collect();
    sorted.sort_by(|one, other| other.latency.at(99.0).total_cmp(&one.latency.at(99.0)));
    for url in sorted.iter().take(SHOWN_URLS) {
        let mut name: String = url.request.chars().take(LONGEST_NAME).collect();
        if name.len() < url.request.len() {
            name.push_str("...");
        }
        if url.statuses.iter().any(|(status, _)| *status != 200) {
            let each: Vec<String> =
                url.statuses.iter().map(|(status, number)| format!("{status}: {}", count(*number))).collect();
            name = format!("{name}  ({})", each.join(", "));
        }
        row(out, "", &url.latency, &name)?;
    }
    match sorted.len().saturating_sub(SHOWN_URLS) {
        0 => Ok(()),
        left => writeln!(out, "              and {left} with a shorter p99; --json has them"),
    }
}

fn head(out: &mut String, name: &str) -> std::fmt::Result {
    writeln!(out)?;
    writeln!(out, "  {name:<10}{:>12}{:>12}{:>12}{:>12}{:>12}", "answers", "mean", "p50", "p99", "max")
}

fn row(out: &mut String, name: &str, latency: &Latency, behind: &str) -> std::fmt::Result {
    let [mean, p50, p99, max] =
        [latency.mean_us, latency.at(50.0), latency.at(99.0), latency.max_us].map(time);
    let line =
        format!("  {name:<10}{:>12}{mean:>12}{p50:>12}{p99:>12}{max:>12}  {behind}", count(latency.count));
    writeln!(out, "{}", line.trim_end())
}
