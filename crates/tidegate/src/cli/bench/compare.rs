//! `tidegate bench compare A B`: is the second run different from the first?

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use clap::Args;
use tidegate_bench::{Outcome, Problem, report::compare};

use super::files;

#[derive(Args)]
pub(crate) struct Arguments {
    /// Result of the first run
    first: PathBuf,
    /// Result of the second run
    second: PathBuf,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Problem> {
    let (first, second) = (read(&arguments.first)?, read(&arguments.second)?);
    files::print(&compare::render(["first", "second"], &compare::compare(&first, &second)?))?;
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path) -> Result<Outcome, Problem> {
    let text = files::read(path)?;
    serde_json::from_str(&text).map_err(|error| {
        Problem::usage(format!("{}: not a result of `tidegate bench --json`: {error}", path.display()))
    })
}
