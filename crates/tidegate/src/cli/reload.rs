//! `tidegate reload`: read config.yaml again.

use std::{collections::HashSet, process::ExitCode, time::Duration};

use clap::Args;
use tidegate_config::{Provider, Settings};

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
    /// Also where no key of the keyring decrypts objects that are in use: what they guard is denied
    #[arg(long)]
    force: bool,
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
        Err(error) if lacks_variable(&error) => {
            not_checked(&error);
            None
        }
        Err(error) => return Err(error),
    };
    let command = Command::Reload { timeout_seconds: arguments.timeout, force: arguments.force };
    carry_out(place, settings.as_ref(), &command, arguments.timeout)
}

/// Its warnings, and objects that it puts out of use, are not seen from here.
pub(super) fn not_checked(error: &anyhow::Error) {
    notices::print(&format!(
        "config.yaml could not be checked here, only by the gateway, which has an environment of its own: {error:#}; set the variable in \
         this shell to see its warnings"
    ));
}

/// Sends the command, and says which objects it has put out of use.
pub(super) fn carry_out(
    place: &SharedOptions,
    settings: Option<&Settings>,
    command: &Command,
    timeout_seconds: u64,
) -> anyhow::Result<ExitCode> {
    // Of a file all count: the gateway may have read it by itself just before.
    let is_file =
        settings.is_some_and(|settings| matches!(settings.provider, Provider::Yaml | Provider::Json));
    let before = if is_file { Some(Vec::new()) } else { settings.and_then(rejected) };
    daemon::command(place, command, Duration::from_secs(timeout_seconds))?;
    let after = settings.and_then(rejected);
    Ok(match before.zip(after) {
        Some((before, after)) => report(&before, &after, is_file),
        None => ExitCode::SUCCESS,
    })
}

/// `None`: the gateway does not say. The reload went well all the same.
fn rejected(settings: &Settings) -> Option<Vec<Rejected>> {
    rejected_objects(settings).ok()
}

fn report(before: &[Rejected], after: &[Rejected], is_file: bool) -> ExitCode {
    let before: HashSet<&str> = before.iter().map(|rejected| rejected.object.as_str()).collect();
    let new: Vec<&Rejected> =
        after.iter().filter(|rejected| !before.contains(rejected.object.as_str())).collect();
    if new.is_empty() {
        return ExitCode::SUCCESS;
    }
    let lines: Vec<String> = new.iter().take(SHOWN).map(|rejected| rejected.in_words()).collect();
    let (objects, lines) = (objects(new.len() as u64), lines.join("\n  "));
    let (what, verb) = match is_file {
        true => (format!("with this file {objects} cannot be used"), "test"),
        false => (format!("with this config.yaml {objects} that could be used before cannot be"), "doctor"),
    };
    let and = if is_file { "each with its line" } else { "with a remedy" };
    complain!(
        "tidegate: {what}, and what they guard is denied:\n  {lines}\n`tidegate {verb}` names all, {and}"
    );
    ExitCode::from(LEFT_OUT)
}
