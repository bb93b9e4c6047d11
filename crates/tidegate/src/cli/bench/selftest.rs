//! `tidegate bench selftest`: whether what is said of causes is true on this machine.

use std::{process::ExitCode, time::Duration};

use tidegate_bench::{Problem, interrupt, selftest};

use super::{
    exit::{INTERRUPTED, PARTLY_FAILED},
    files, progress,
};

#[derive(clap::Args)]
pub(crate) struct Selftest {
    /// Runs of each server
    #[arg(long, default_value_t = 1, value_name = "N")]
    runs: usize,
    /// Length of a run in seconds
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    seconds: f64,
    /// Only servers with this text in their name
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,
}

pub(super) fn run(arguments: &Selftest) -> Result<ExitCode, Problem> {
    if !(0.5..=60.0).contains(&arguments.seconds) || arguments.runs == 0 {
        return Err(Problem::usage("--seconds must be from 0.5 to 60, and --runs at least 1"));
    }
    let stop = interrupt::flag()?;
    let length = Duration::from_secs_f64(arguments.seconds);
    let show = |name: &str| progress::show(name, false);
    let table = selftest::run(arguments.runs, length, arguments.only.as_deref(), &stop, &show)?;
    progress::show("", false);
    if table.runs == 0 {
        return Err(Problem::usage("no server has this text in its name"));
    }
    files::print(&table.text)?;
    if stop.load(std::sync::atomic::Ordering::Relaxed) {
        return Ok(ExitCode::from(INTERRUPTED));
    }
    // A wrong name is worse than none.
    let is_good = table.falsely == 0 && table.right * 20 >= table.runs * 19;
    Ok(if is_good { ExitCode::SUCCESS } else { ExitCode::from(PARTLY_FAILED) })
}
