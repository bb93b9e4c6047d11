//! The lines of wrk, in its widths and units, for scripts that read them.

use std::fmt::Write;

use super::units::spread;
use crate::{Outcome, outcome::latency::Latency};

pub(super) fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    head(out, outcome)?;
    thread_stats(out, outcome, &outcome.latency)?;
    writeln!(out, "  Latency Distribution")?;
    for percent in [50.0, 75.0, 90.0, 99.0] {
        writeln!(out, "  {percent:>5}%  {:>7}", latency(outcome.latency.at(percent)))?;
    }
    summary(out, outcome)
}

pub(super) fn head(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    writeln!(out, "Running {:.0}s test @ {}", outcome.seconds.max(1.0), outcome.url)?;
    writeln!(out, "  {} threads and {} connections", outcome.threads, outcome.connections)
}

pub(super) fn thread_stats(out: &mut String, outcome: &Outcome, of: &Latency) -> std::fmt::Result {
    writeln!(out, "  Thread Stats{:>6}{:>11}{:>8}{:>12}", "Avg", "Stdev", "Max", "+/- Stdev")?;
    let row = [latency(of.mean_us), latency(of.stdev_us), latency(of.max_us)];
    columns(out, "Latency", row, of.within_stdev_percent)?;
    let per_second = 1000.0 / outcome.series.slot_ms.max(1) as f64 / outcome.threads.max(1) as f64;
    let mut rates: Vec<f64> =
        outcome.series.slots.iter().map(|slot| slot.count as f64 * per_second).collect();
    if rates.len() > 1 {
        // The last slot is cut by the end of the run.
        rates.pop();
    }
    let (mean, stdev) = spread(&rates);
    let within = rates.iter().filter(|&&rate| (rate - mean).abs() <= stdev).count();
    let max = rates.iter().copied().fold(0.0, f64::max);
    let share = 100.0 * within as f64 / rates.len().max(1) as f64;
    columns(out, "Req/Sec", [metric(mean), metric(stdev), metric(max)], share)
}

fn columns(out: &mut String, name: &str, [mean, stdev, max]: [String; 3], within: f64) -> std::fmt::Result {
    writeln!(out, "    {name:<7}{mean:>10}{stdev:>10}{max:>10}{within:>8.2}%")
}

pub(super) fn summary(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    writeln!(
        out,
        "  {} requests in {}, {}B read",
        outcome.requests,
        latency(outcome.seconds * 1e6),
        binary(outcome.bytes_in as f64)
    )?;
    if outcome.failed() > 0 {
        let connect = ["connect", "connect timeout", "tls"];
        let connect: u64 = connect.iter().map(|kind| outcome.failures_of(kind)).sum();
        let read = outcome.failures_of("closed early") + outcome.failures_of("malformed");
        let (write, timeout) = (outcome.failures_of("write"), outcome.failures_of("timeout"));
        writeln!(out, "  Socket errors: connect {connect}, read {read}, write {write}, timeout {timeout}")?;
    }
    if outcome.bad_statuses > 0 {
        writeln!(out, "  Non-2xx or 3xx responses: {}", outcome.bad_statuses)?;
    }
    writeln!(out, "Requests/sec: {:>10.2}", outcome.requests_per_second())?;
    writeln!(out, "Transfer/sec: {:>9}B", binary(outcome.bytes_in as f64 / outcome.seconds.max(1e-9)))
}

/// Microseconds in wrk's units.
pub(super) fn latency(us: f64) -> String {
    match us {
        us if us < 1000.0 => format!("{us:.2}us"),
        us if us < 1_000_000.0 => format!("{:.2}ms", us / 1000.0),
        us if us < 60_000_000.0 => format!("{:.2}s", us / 1e6),
        us => format!("{:.2}m", us / 6e7),
    }
}

fn metric(value: f64) -> String {
    match value {
        value if value < 1000.0 => format!("{value:.2}"),
        value if value < 1e6 => format!("{:.2}k", value / 1e3),
        value => format!("{:.2}M", value / 1e6),
    }
}

fn binary(value: f64) -> String {
    match value {
        value if value < 1024.0 => format!("{value:.2}"),
        value if value < 1024.0 * 1024.0 => format!("{:.2}K", value / 1024.0),
        value if value < 1024.0 * 1024.0 * 1024.0 => format!("{:.2}M", value / 1024.0 / 1024.0),
        value => format!("{:.2}G", value / 1024.0 / 1024.0 / 1024.0),
    }
}
