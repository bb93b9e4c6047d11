//! `tidegate reload`: read config.yaml again.

use std::{collections::HashSet, process::ExitCode, time::Duration};

use clap::Args;
use tidegate_config::Settings;

use super::{
    count::objects,
    daemon,
    doctor::store::{Rejected, rejected_objects},
    place::SharedOptions,
    run::lacks_variable,
};
use crate::{
    boot::{commands::Command, notices, preflight},
    say::complain,
};

/// It was done, and objects that were served are not.
const LEFT_OUT: u8 = 2;

/// Of these objects that many are named.
const SHOWN: usize = 3;

#[derive(Args)]
pub(super) struct Arguments {
    /// If the change needs a new process, seconds it may take to get ready; after that the old one keeps serving
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    // A configuration that would not load is reported here, with all its faults, and the running one stays.
    let settings = match place.load_anywhere() {
        Ok(loaded) => {
            let more = preflight::warnings_of_files_too(&loaded);
            loaded.warnings.iter().chain(&more).for_each(|warning| notices::print(warning));
            Some(loaded.settings)
        }
        // The gateway has an environment of its own, and says what is not in that.
        Err(error) if lacks_variable(&error) => None,
        Err(error) => return Err(error),
    };
    let command = Command::Reload { timeout_seconds: arguments.timeout };
    carry_out(place, settings.as_ref(), &command, arguments.timeout)
}

/// Sends the command, and says which objects it has put out of use.
pub(super) fn carry_out(
    place: &SharedOptions,
    settings: Option<&Settings>,
    command: &Command,
    timeout_seconds: u64,
) -> anyhow::Result<ExitCode> {
    let before = settings.and_then(rejected);
    daemon::command(place, command, Duration::from_secs(timeout_seconds))?;
    let after = settings.and_then(rejected);
    Ok(match before.zip(after) {
        Some((before, after)) => report(&before, &after),
        None => ExitCode::SUCCESS,
    })
}

/// `None`: the gateway does not say. The reload went well all the same.
fn rejected(settings: &Settings) -> Option<Vec<Rejected>> {
    rejected_objects(settings).ok()
}

fn report(before: &[Rejected], after: &[Rejected]) -> ExitCode {
    let before: HashSet<&str> = before.iter().map(|rejected| rejected.object.as_str()).collect();
    let new: Vec<&Rejected> =
        after.iter().filter(|rejected| !before.contains(rejected.object.as_str())).collect();
    if new.is_empty() {
        return ExitCode::SUCCESS;
    }
    let lines: Vec<String> = new.iter().take(SHOWN).map(|rejected| rejected.in_words()).collect();
    complain!(
        "tidegate: with this config.yaml {} that could be used before cannot be, and what they guard is denied:\n  {}\n\
         `tidegate doctor` names all, with a remedy",
        objects(new.len() as u64),
        lines.join("\n  ")
    );
    ExitCode::from(LEFT_OUT)
}
