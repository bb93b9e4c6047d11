//! The line that moves while a run is under way. Only on a terminal; files and pipes stay clean.

use std::{
    io::{IsTerminal, Write, stderr},
    time::Duration,
};

use tidegate_bench::{engine::Running, report::units};

const STEP: Duration = Duration::from_millis(50);
const STEPS_PER_LINE: u32 = 10;
/// The narrowest terminal that is thought of.
const COLUMNS: usize = 40;

/// Follows a run until it ends.
pub(super) fn follow(running: &Running, total: Option<Duration>, quiet: bool) {
    let shown = !quiet && stderr().is_terminal();
    let (mut steps, mut seen) = (0u32, 0);
    while !running.is_finished() {
        std::thread::sleep(STEP);
        steps += 1;
        if shown && steps.is_multiple_of(STEPS_PER_LINE) {
            seen = line(running, total, seen);
        }
    }
    if shown {
        // Erases the line.
        let _ = write!(stderr(), "\r\x1b[2K");
    }
}

/// Shows what happens now, in place of the line.
pub(super) fn show(what: &str, quiet: bool) {
    if !quiet && stderr().is_terminal() {
        let _ = write!(stderr(), "\r\x1b[2K{what}");
        let _ = stderr().flush();
    }
}

/// Prints what happened since the slot `from`; returns where the next line begins.
fn line(running: &Running, total: Option<Duration>, from: usize) -> usize {
    let until = running.slots();
    let slots = until.saturating_sub(from);
    if slots == 0 {
        return from;
    }
    let moment = running.slots_since(from);
    let rate = moment.count as f64 / (slots as f64 / 10.0);
    let us = |percent: f64| units::time(moment.percentile_ns(percent) as f64 / 1000.0);
    let mut parts = vec![format!("{}/s", units::brief(rate))];
    if moment.errors > 0 {
        parts.push(format!("{} failed", units::brief(moment.errors as f64)));
    }
    if let Some(total) = total {
        let left = (total.as_secs_f64() - running.elapsed_seconds()).max(0.0);
        parts.push(format!("{left:.0} s left"));
    }
    parts.extend([format!("p99 {}", us(99.0)), format!("p50 {}", us(50.0))]);
    let _ = write!(stderr(), "\r\x1b[2K{}", fitting(parts));
    let _ = stderr().flush();
    until
}

/// As many of the parts, most important first, as a narrow terminal shows on one line: a longer one would stay there.
fn fitting(parts: Vec<String>) -> String {
    let mut line = String::new();
    for part in parts {
        let between = if line.is_empty() { "" } else { ", " };
        if line.len() + between.len() + part.len() < COLUMNS {
            line = line + between + &part;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_fits_a_narrow_terminal() {
        let parts = |words: &[&str]| fitting(words.iter().map(|word| (*word).to_owned()).collect());
        assert_eq!(
            parts(&["9.99k/s", "59 s left", "p99 12.34ms", "p50 1.00ms"]),
            "9.99k/s, 59 s left, p99 12.34ms"
        );
        assert_eq!(parts(&["120/s", "9 s left", "p99 4.2ms"]), "120/s, 9 s left, p99 4.2ms");
    }
}
