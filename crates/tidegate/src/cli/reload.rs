//! `tidegate reload`: read config.yaml again.

use std::time::Duration;

use clap::Args;

use super::{daemon, place::SharedOptions};
use crate::boot::{commands::Command, notices};

#[derive(Args)]
pub(super) struct Arguments {
    /// If the change needs a new process, seconds it may take to get ready; after that the old one keeps serving
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    // A configuration that would not load is reported here, with all its faults, and the running one stays.
    place.load_anywhere()?.warnings.iter().for_each(|warning| notices::print(warning));
    let command = Command::Reload { timeout_seconds: arguments.timeout };
    daemon::command(place, &command, Duration::from_secs(arguments.timeout))
}
