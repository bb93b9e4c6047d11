//! `tidegate upgrade`: this program takes over from the one that runs, without a lost request.

use std::time::Duration;

use clap::Args;

use super::{daemon, place::SharedOptions};
use crate::boot::commands::Command;

#[derive(Args)]
pub(super) struct Arguments {
    /// Seconds the new process may take to get ready; after that the old one keeps serving
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let command = Command::Upgrade { program: daemon::own_program()?, timeout_seconds: arguments.timeout };
    daemon::command(place, &command, Duration::from_secs(arguments.timeout))
}
