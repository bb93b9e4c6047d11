//! `tidegate bench`: measure any HTTP server, and say where its latency comes from.

mod arguments;
mod compare;
mod doctor;
mod files;
mod progress;
mod run;
mod suite;

use std::process::ExitCode;

use load::Problem;

pub use arguments::Arguments;
use arguments::Mode;

/// Some requests failed: the figures are of the others.
const PARTLY_FAILED: u8 = 3;
const INTERRUPTED: u8 = 130;

pub fn run(arguments: &Arguments) -> ExitCode {
    let result = match &arguments.mode {
        None => run::run(&arguments.load),
        Some(mode) => dispatch(mode),
    };
    result.unwrap_or_else(|problem| {
        eprintln!("tidegate bench: {problem}");
        ExitCode::from(problem.exit_code())
    })
}

fn dispatch(mode: &Mode) -> Result<ExitCode, Problem> {
    match mode {
        Mode::Compare(arguments) => compare::run(arguments),
        Mode::Doctor(arguments) => doctor::run(arguments),
        Mode::Suite(arguments) => suite::run(arguments),
    }
}
