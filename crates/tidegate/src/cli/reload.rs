//! `tidegate reload`: read config.yaml again.

use std::{collections::HashSet, process::ExitCode, time::Duration};

use clap::Args;
use tidegate_config::{Provider, Settings};

use super::{
    count::objects, daemon, doctor::store::rejected_objects, place::SharedOptions, run::lacks_variable,
};
use crate::{
    boot::{
        commands::{self, Command, Unusable},
        notices, preflight,
    },
    say::complain,
};

/// It was done, and objects that were served are not.
const LEFT_OUT: u8 = 2;

/// For what the gateway is asked behind the command.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Of these objects that many are named.
const SHOWN: usize = 3;

#[derive(Args)]
pub(super) struct Arguments {
    /// If the change needs a new process, seconds it may take to get ready; after that the old one keeps serving
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    timeout: u64,
    /// Also where no key of the keyring decrypts objects that are in use, or a changed provider has no objects
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
    let command = Command::Reload {
        timeout_seconds: arguments.timeout,
        force: arguments.force,
        config: place.source()?.file,
    };
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
    if settings.is_some() && (before.is_none() || after.is_none()) {
        complain!(
            "tidegate: warning: the gateway does not say which objects it could use before and can use now; `tidegate doctor` and its \
             error log name those that it cannot use"
        );
    }
    let all_in_use = settings.is_none_or(every_key_is_in_use);
    let all_usable = before.zip(after).is_none_or(|(before, after)| report(&before, &after, is_file));
    Ok(if all_usable && all_in_use { ExitCode::SUCCESS } else { ExitCode::from(LEFT_OUT) })
}

/// Names the keys of apisix.yaml that are not: one may have been meant for a list of guards, and `tidegate test` says so as well. A gateway
/// of before this question has them in its log only.
fn every_key_is_in_use(settings: &Settings) -> bool {
    let ignored = commands::ignored(&settings.files.pid, ANSWER_LIMIT).unwrap_or_default();
    for text in ignored.iter().take(SHOWN) {
        complain!("tidegate: {text}");
    }
    if let Some(more @ 1..) = ignored.len().checked_sub(SHOWN) {
        complain!("tidegate: {more} more keys are ignored; `tidegate test` names all");
    }
    ignored.is_empty()
}

/// `None`: the gateway does not say. The reload went well all the same.
fn rejected(settings: &Settings) -> Option<Vec<Unusable>> {
    rejected_objects(settings).ok()
}

/// Names the objects that can no longer be used, and says whether there are none.
fn report(before: &[Unusable], after: &[Unusable], is_file: bool) -> bool {
    let before: HashSet<&str> = before.iter().map(|rejected| rejected.object.as_str()).collect();
    let new: Vec<&Unusable> =
        after.iter().filter(|rejected| !before.contains(rejected.object.as_str())).collect();
    if new.is_empty() {
        return true;
    }
    let lines: Vec<String> = new.iter().take(SHOWN).map(|rejected| rejected.in_words()).collect();
    let (objects, lines) = (objects(new.len() as u64), lines.join("\n  "));
    let (what, verb) = match is_file {
        true => (format!("with this file {objects} cannot be used"), "test"),
        false => (format!("with this config.yaml {objects} that could be used before cannot be"), "doctor"),
    };
    let except = notices::except(new.iter().map(|rejected| rejected.reason.as_str()));
    let and = if is_file { "each with its line" } else { "with a remedy" };
    complain!(
        "tidegate: {what}, and what they guard is denied{except}:\n  {lines}\n`tidegate {verb}` names all, {and}"
    );
    false
}
