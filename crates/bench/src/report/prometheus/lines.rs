//! Lines of the text format.

use std::fmt::{Result, Write};

use crate::outcome::latency::Latency;

const QUANTILES: [(f64, &str); 6] =
    [(50.0, "0.5"), (90.0, "0.9"), (95.0, "0.95"), (99.0, "0.99"), (99.9, "0.999"), (100.0, "1")];

pub(super) fn head(out: &mut String, name: &str, kind: &str, help: &str) -> Result {
    writeln!(out, "# HELP tidegate_bench_{name} {help}")?;
    writeln!(out, "# TYPE tidegate_bench_{name} {kind}")
}

pub(super) fn summary(out: &mut String, name: &str, labels: &str, latency: &Latency) -> Result {
    for (percent, quantile) in QUANTILES.into_iter().filter(|_| latency.count > 0) {
        let seconds = latency.at(percent) / 1e6;
        writeln!(out, "tidegate_bench_{name}{{{labels},quantile=\"{quantile}\"}} {seconds}")?;
    }
    let sum = latency.mean_us * latency.count as f64 / 1e6;
    writeln!(out, "tidegate_bench_{name}_sum{{{labels}}} {sum}")?;
    writeln!(out, "tidegate_bench_{name}_count{{{labels}}} {}", latency.count)
}

/// A value of a label.
pub(super) fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
