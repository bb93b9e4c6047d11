//! A suite's figures as Markdown: medians, and how far the repetitions lie apart.

use super::{Figure, Measured, Suite};
use crate::{
    report::units::{count, median},
    system::Machine,
};

impl Figure {
    fn title(self) -> &'static str {
        match self {
            Figure::RequestsPerSecond => "requests/s",
            Figure::CpuUs => "CPU us/request",
            Figure::MeanUs => "mean us",
            Figure::P50Us => "p50 us",
            Figure::P95Us => "p95 us",
            Figure::P99Us => "p99 us",
            Figure::P999Us => "p99.9 us",
            Figure::MaxUs => "max us",
            Figure::Over10Ms => "over 10 ms",
        }
    }

    fn shown(self, value: f64) -> String {
        match self {
            _ if value.is_nan() => "-".into(),
            Figure::CpuUs => format!("{value:.2}"),
            _ => count(value.round() as u64),
        }
    }
}

/// Heading, conditions and table.
pub fn markdown(suite: &Suite, measured: &[Measured]) -> String {
    let machine = Machine::read();
    let mut out = format!("### {}\n\n{}\n\n", suite.name, suite.about.trim());
    out.push_str(&format!(
        "{} repetitions of {} s after {} s of warm-up, medians (half the range of the repetitions). {}, {} CPUs, {}{}.\n\n",
        suite.repetitions,
        suite.seconds,
        suite.warmup_seconds,
        machine.cpu,
        machine.cpus,
        machine.kernel,
        if machine.hypervisor { ", a virtual machine" } else { "" }
    ));
    let titles: Vec<&str> = suite.figures.iter().map(|figure| figure.title()).collect();
    out.push_str(&format!("| scenario | target | {} | failed |\n|---|---|", titles.join(" | ")));
    out.push_str(&"---|".repeat(titles.len() + 1));
    out.push('\n');
    for row in measured {
        out.push_str(&format!("| {} | {} | ", row.scenario, row.target));
        match &row.left_out {
            Some(reason) => out.push_str(&format!("left out: {} |", reason.replace('|', "/"))),
            None => {
                out.push_str(&cells(suite, row).join(" | "));
                out.push_str(&format!(" | {} |", row.failed));
            }
        }
        out.push('\n');
    }
    out
}

fn cells(suite: &Suite, row: &Measured) -> Vec<String> {
    let cell = |(at, &figure): (usize, &Figure)| {
        let values: Vec<f64> = row.values.iter().filter_map(|all| all.get(at).copied()).collect();
        if values.is_empty() {
            return "-".into();
        }
        let middle = median(&values);
        let (low, high) = values
            .iter()
            .fold((f64::INFINITY, 0.0f64), |(low, high), &value| (low.min(value), high.max(value)));
        let spread = if middle > 0.0 { 50.0 * (high - low) / middle } else { 0.0 };
        match figure {
            Figure::Over10Ms => figure.shown(middle),
            _ if middle.is_nan() => "-".into(),
            _ => format!("{} ({spread:.0} %)", figure.shown(middle)),
        }
    };
    suite.figures.iter().enumerate().map(cell).collect()
}

/// Whether anything failed.
pub fn summary(measured: &[Measured]) -> u64 {
    measured.iter().map(|row| row.failed).sum()
}
