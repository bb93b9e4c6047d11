//! The line that moves while a run is under way. Only on a terminal; files and pipes stay clean.

use std::{
    io::{IsTerminal, Write, stderr},
    time::Duration,
};

use load::{engine::Running, report::units};

const STEP: Duration = Duration::from_millis(50);
const STEPS_PER_LINE: u32 = 10;

/// Follows a run until it ends.
pub fn follow(running: &Running, total: Option<Duration>, quiet: bool) {
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

/// What goes on now, in the place of the line.
pub fn say(what: &str, quiet: bool) {
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
    let left = total.map_or(String::new(), |total| {
        format!(", {:.0} s left", (total.as_secs_f64() - running.elapsed_seconds()).max(0.0))
    });
    let errors = if moment.errors > 0 { format!(", {} errors", moment.errors) } else { String::new() };
    let _ =
        write!(stderr(), "\r\x1b[2K{rate:.0} requests/s, p50 {}, p99 {}{errors}{left}", us(50.0), us(99.0));
    let _ = stderr().flush();
    until
}
