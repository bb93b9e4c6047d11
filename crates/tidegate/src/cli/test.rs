//! `tidegate test`: what a start would say, without starting.

use std::process::ExitCode;

use tidegate_config::Provider;

use super::{count::objects, place::SharedOptions, stdout};
use crate::{
    boot::{notices, preflight, trial},
    say::complain,
};

/// A start would work, and some objects would not.
const LEFT_OUT: u8 = 2;

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// If the store is damaged, check a start with `run --serve-last-good`
    #[arg(long)]
    serve_last_good: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let loaded = place.load()?;
    for warning in loaded.warnings.iter().chain(&preflight::warnings(&loaded)) {
        notices::print(warning);
    }
    preflight::check_start(&loaded)?;
    let mut settings = loaded.settings;
    settings.serve_last_good = arguments.serve_last_good;
    let resources = match settings.provider {
        Provider::Yaml => Some(settings.files.resources_yaml.clone()),
        Provider::Json => Some(settings.files.resources_json.clone()),
        Provider::Embedded | Provider::Etcd | Provider::ApiDriven => None,
    };
    let shown = settings.files.config.display().to_string();
    let absent = !settings.files.config.exists();
    let outcome = trial::run(settings)?;
    match absent {
        true => stdout::line(&format!("{shown} does not exist; the defaults apply")),
        false => stdout::line(&format!("{shown} is valid")),
    }
    if let Some(pid) = outcome.running {
        let own: Vec<String> = outcome.own.iter().map(ToString::to_string).collect();
        stdout::line(&format!(
            "process {pid} serves from this prefix: its store was left alone, and it has {}",
            if own.is_empty() { "none of these ports".to_owned() } else { own.join(", ") }
        ));
    }
    if let Some(reason) = outcome.outdated {
        complain!(
            "tidegate: warning: the objects were taken from its copy of them, which lacks those of the last seconds: {reason}"
        );
    }
    if outcome.problems > 0 {
        complain!(
            "tidegate: the gateway would start, but serve without what is named above: {}",
            outcome.problems
        );
        return Ok(ExitCode::from(LEFT_OUT));
    }
    if let Some(path) = resources {
        stdout::line(&format!("{} is valid: {}", path.display(), objects(outcome.objects as u64)));
    }
    stdout::line("configuration test is successful");
    Ok(ExitCode::SUCCESS)
}
