//! The lines of wrk2: wrk's, with the full percentile spectrum of the corrected and of the raw histogram.

use std::fmt::Write;

use super::wrk;
use crate::{Outcome, outcome::latency::Latency};

pub(super) fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    wrk::head(out, outcome)?;
    wrk::thread_stats(out, outcome, outcome.seen())?;
    spectrum(out, "HdrHistogram - Recorded Latency", outcome.seen())?;
    if outcome.corrected.is_some() {
        let title =
            "HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account)";
        spectrum(out, title, &outcome.latency)?;
    }
    wrk::summary(out, outcome)
}

fn spectrum(out: &mut String, title: &str, latency: &Latency) -> std::fmt::Result {
    writeln!(out, "  Latency Distribution ({title})")?;
    for percent in [50.0, 75.0, 90.0, 99.0, 99.9, 99.99, 99.999, 100.0] {
        writeln!(out, "{percent:>7.3}%  {:>7}", wrk::latency(latency.at(percent)))?;
    }
    writeln!(out)?;
    writeln!(out, "  Detailed Percentile spectrum:")?;
    writeln!(out, "       Value   Percentile   TotalCount 1/(1-Percentile)")?;
    writeln!(out)?;
    for percentile in ladder() {
        let value = latency.at(percentile * 100.0);
        let below: u64 =
            latency.steps.iter().filter(|(step, _)| *step <= value).map(|(_, count)| count).sum();
        writeln!(
            out,
            "{:>12.3} {percentile:>12.6} {below:>12} {:>14.2}",
            value / 1000.0,
            1.0 / (1.0 - percentile)
        )?;
        if below >= latency.count {
            break;
        }
    }
    writeln!(out, "{:>12.3} {:>12.6} {:>12}            inf", latency.max_us / 1000.0, 1.0, latency.count)?;
    let (mean, stdev) = (latency.mean_us / 1000.0, latency.stdev_us / 1000.0);
    writeln!(out, "#[Mean    = {mean:>12.3}, StdDeviation   = {stdev:>12.3}]")?;
    writeln!(out, "#[Max     = {:>12.3}, Total count    = {:>12}]", latency.max_us / 1000.0, latency.count)?;
    writeln!(out, "----------------------------------------------------------")
}

/// Ten steps for each halving of the distance to 100 %, as HdrHistogram prints them.
fn ladder() -> impl Iterator<Item = f64> {
    (0..24u32).flat_map(|halving| {
        let (floor, width) = (1.0 - 0.5f64.powi(halving as i32), 0.5f64.powi(halving as i32 + 1));
        let steps = if halving < 1 { 5 } else { 10 };
        (0..steps).map(move |step| floor + width * f64::from(step) / f64::from(steps))
    })
}
