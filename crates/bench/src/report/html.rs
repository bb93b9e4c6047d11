//! A run as one HTML file that needs nothing else: figures, findings and three charts, light and dark, offline.

use serde_json::json;

use super::{
    beyond,
    units::{bytes, count, time},
};
use crate::{Outcome, Problem};

const PAGE: &str = include_str!("page.html");
const STYLE: &str = include_str!("../../vendor/uplot/uPlot.min.css");
const SCRIPT: &str = include_str!("../../vendor/uplot/uPlot.iife.min.js");
const CHARTS: &str = include_str!("charts.js");

/// One file, without scripts and links.
pub fn render(outcome: &Outcome) -> Result<String, Problem> {
    let data = serde_json::to_string(&data(outcome))
        .map_err(|error| Problem::failed(format!("cannot write the report: {error}")))?
        // A script ends where this stands, whatever the string around it.
        .replace("</", "<\\/");
    // What users chose comes last, so that nothing in it is taken for a place of the page.
    Ok(PAGE
        .replace("@STYLE@", STYLE)
        .replace("@UPLOT@", SCRIPT)
        .replace("@CHARTS@", CHARTS)
        .replace("@SUMMARY@", &summary(outcome))
        .replace("@FINDINGS@", &findings(outcome))
        .replace("@DATA@", &data))
}

fn summary(outcome: &Outcome) -> String {
    let seen = outcome.seen();
    let model = outcome.model();
    let mut rows = vec![
        ("target", outcome.url.clone()),
        (
            "run",
            format!(
                "{}, {} connections, {} threads, {model}, {:.1} s",
                outcome.protocol, outcome.connections, outcome.threads, outcome.seconds
            ),
        ),
        (
            "machine",
            format!("{}, {} CPUs, {}", outcome.machine.cpu, outcome.machine.cpus, outcome.machine.kernel),
        ),
        ("requests", format!("{} ({:.0}/s)", count(outcome.requests), outcome.requests_per_second())),
        ("failed", format!("{}, bad statuses {}", count(outcome.failed()), count(outcome.bad_statuses))),
        ("received", bytes(outcome.bytes_in as f64)),
    ];
    rows.extend(beyond::rows(outcome));
    for (name, percent) in
        [("p50", 50.0), ("p90", 90.0), ("p99", 99.0), ("p99.9", 99.9), ("p99.99", 99.99), ("max", 100.0)]
    {
        rows.push((name, time(seen.at(percent))));
    }
    if let Some(each) = outcome.server_cpu_us() {
        rows.push(("server CPU", format!("{each:.2} us per request")));
    }
    rows.iter().map(|(name, value)| format!("<tr><th>{name}</th><td>{}</td></tr>\n", escape(value))).collect()
}

fn findings(outcome: &Outcome) -> String {
    if outcome.findings.is_empty() {
        return "<p>No known cause of latency stands out.</p>".into();
    }
    let one = |finding: &crate::outcome::Finding| {
        let evidence: String =
            finding.evidence.iter().map(|line| format!("<li>{}</li>", escape(line))).collect();
        format!(
            "<article><h3>{}</h3><ul>{evidence}</ul><p>{}</p></article>\n",
            escape(&finding.title),
            escape(&finding.remedy)
        )
    };
    outcome.findings.iter().map(one).collect()
}

fn data(outcome: &Outcome) -> serde_json::Value {
    let series = &outcome.series;
    let slot = series.slot_ms as f64 / 1000.0;
    let ms = |us: f64| us / 1000.0;
    let spectrum = |latency: &crate::outcome::latency::Latency| -> Vec<f64> {
        ladder(latency.count).into_iter().map(|beyond| ms(latency.at(100.0 - 100.0 / beyond))).collect()
    };
    let longest = ladder(outcome.seen().count);
    let marks: Vec<_> = outcome
        .findings
        .iter()
        .flat_map(|finding| finding.marks.iter().map(|at| json!({"at": at, "name": finding.name})))
        .collect();
    json!({
        "time": (0..series.slots.len()).map(|at| at as f64 * slot).collect::<Vec<f64>>(),
        "rate": series.slots.iter().map(|one| one.count as f64 / slot).collect::<Vec<f64>>(),
        "errors": series.slots.iter().map(|one| one.errors as f64 / slot).collect::<Vec<f64>>(),
        "p50": series.slots.iter().map(|one| ms(one.p50_us)).collect::<Vec<f64>>(),
        "p99": series.slots.iter().map(|one| ms(one.p99_us)).collect::<Vec<f64>>(),
        "max": series.slots.iter().map(|one| ms(one.max_us)).collect::<Vec<f64>>(),
        "beyond": longest,
        "spectrum": spectrum(outcome.seen()),
        "raw": outcome.corrected.is_some().then(|| {
            longest.iter().map(|beyond| ms(outcome.latency.at(100.0 - 100.0 / beyond))).collect::<Vec<f64>>()
        }),
        "marks": marks,
    })
}

/// 1 / (1 - percentile), from the median to the slowest request: 2 is p50, 100 is p99, 1,000 is p99.9.
fn ladder(count: u64) -> Vec<f64> {
    let mut points = vec![1.0];
    let mut at = 1.0;
    while at < count as f64 && points.len() < 200 {
        at *= 1.122;
        points.push(at);
    }
    points
}

/// Nothing of the user's may look like a place of the page.
fn escape(text: &str) -> String {
    quick_xml::escape::escape(text).replace('@', "&#64;")
}
