//! The sequential test: one connection, one request after the other, whole milliseconds.

use std::fmt::Write;

use crate::Outcome;

/// (name, from, below) in milliseconds. A cost of 0 ms is less than one.
const BUCKETS: [(&str, f64, f64); 5] = [
    ("0ms", 0.0, 1.0),
    ("0~2ms", 1.0, 2.0),
    ("2~5ms", 2.0, 5.0),
    ("5~10ms", 5.0, 10.0),
    (">10ms", 10.0, f64::INFINITY),
];

pub(super) fn render(outcome: &Outcome) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = write(&mut out, outcome);
    out
}

fn write(out: &mut String, outcome: &Outcome) -> std::fmt::Result {
    // One request at a time: one that took more than 10 ms is the slowest of the 10 ms in which it began.
    for &micros in outcome.series.fine_max_us.iter().filter(|&&micros| micros >= 10_000) {
        writeln!(out, "cost: {}ms", micros / 1000)?;
    }
    writeln!(out, "Latency stats:")?;
    for (name, low, high) in BUCKETS {
        writeln!(out, "{name}: {}", outcome.latency.between_ms(low, high))?;
    }
    Ok(())
}
