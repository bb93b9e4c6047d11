//! `tidegate upgrade`: this program takes over from the one that runs, without a lost request.

use std::process::ExitCode;

use clap::Args;

use super::{
    daemon,
    place::SharedOptions,
    reload::{carry_out, not_checked},
    run::lacks_variable,
};
use crate::boot::{commands::Command, notices, preflight};

#[derive(Args)]
pub(super) struct Arguments {
    /// Seconds the new process may take to get ready; after that the old one keeps serving
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Also where no key of the keyring decrypts objects that are in use, or a changed provider has no objects
    #[arg(long)]
    force: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // What does not load is the new process's to report: it has the gateway's environment.
    let loaded = place.load_anywhere();
    if let Err(error) = loaded.as_ref()
        && lacks_variable(error)
    {
        not_checked(error);
    }
    let loaded = loaded.ok();
    if let Some(loaded) = &loaded {
        loaded
            .warnings
            .iter()
            .chain(&preflight::warnings_of_files_too(loaded))
            .for_each(|warning| notices::print(warning));
    }
    let command = Command::Upgrade {
        program: daemon::own_program()?,
        timeout_seconds: arguments.timeout,
        force: arguments.force,
        config: place.source()?.file,
    };
    carry_out(place, loaded.as_ref().map(|loaded| &loaded.settings), &command, arguments.timeout)
}
