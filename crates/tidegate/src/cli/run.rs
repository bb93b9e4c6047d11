//! `tidegate run`: serve in the foreground.

use tidegate_config::Loaded;

use super::{daemon, import, place::SharedOptions};
use crate::boot::{
    self, RunOptions, handover::predecessor::Predecessor, pid_file::PidFile, preflight, serving::Origin,
    signals::Hangup,
};

#[derive(clap::Args)]
pub(super) struct Arguments {
    /// Serve the configuration of another gateway, as KIND:FILE; KIND is kong, hyperapi, nginx or apisix
    #[arg(long, value_name = "KIND:FILE")]
    from: Option<String>,
    /// Fail if some responses would differ from those of the gateway of --from
    #[arg(long, requires = "from")]
    strict: bool,
    #[command(flatten)]
    reading: import::Reading,
    /// After an upgrade, stay until the new process ends, for supervisors that watch this one. PID 1 always does
    #[arg(long)]
    stay: bool,
    /// If the store is damaged, serve its last good copy read-only, even if it lacks newer changes
    #[arg(long)]
    serve_last_good: bool,
}

pub(super) fn run(place: &SharedOptions, arguments: &Arguments) -> anyhow::Result<()> {
    let Some(predecessor) = Predecessor::connect()? else { return serve(place, arguments, None) };
    let messenger = predecessor.messenger()?;
    // Reported here as everywhere, and to the client that requested the upgrade from the old process.
    serve(place, arguments, Some(predecessor)).inspect_err(|error| messenger.failed(&format!("{error:#}")))
}

fn serve(
    place: &SharedOptions,
    arguments: &Arguments,
    mut predecessor: Option<Predecessor>,
) -> anyhow::Result<()> {
    let loaded = match &arguments.from {
        Some(_) => place.load_anywhere(),
        None => place.load(),
    };
    let mut loaded = if predecessor.is_some() { loaded.map_err(with_environment)? } else { loaded? };
    if let Some(from) = &arguments.from {
        import::serve(from, place, &arguments.reading, arguments.strict, &mut loaded)?;
        // Nothing is stored, so nothing is encrypted, and there need be no config.yaml.
        loaded.warnings.retain(|warning| !(warning.contains(KEYRING) || warning.contains(NO_FILE)));
    }
    preflight::check_start(&loaded)?;
    let more = preflight::warnings(&loaded);
    let Loaded { mut settings, mut warnings, .. } = loaded;
    settings.serve_last_good = arguments.serve_last_good;
    warnings.extend(more);
    let path = &settings.files.pid;
    // Held until the end; a second gateway with the same prefix stops here.
    let pid_file = match predecessor.as_mut().and_then(|old| old.pid_file.take()) {
        Some(file) => PidFile::inherited(file, path),
        None => PidFile::create(path)?,
    };
    // A file that cannot be used is among the warnings; one that cannot be made is not known before.
    let new_keys = settings.make_admin_keys().unwrap_or_else(|problem| {
        let problem = format!("{problem}; until then every request to the Admin API is answered 401");
        if !warnings.contains(&problem) {
            warnings.push(problem);
        }
        Vec::new()
    });
    let again = place.clone();
    let origin = Origin {
        program: daemon::own_program()?,
        arguments: std::env::args_os().skip(1).collect(),
        load: Box::new(move || {
            let loaded = again.load_anywhere().map_err(with_environment)?;
            preflight::check(&loaded)?;
            Ok(loaded.settings)
        }),
    };
    let config = settings.raw.clone();
    let stay = predecessor.is_none() && (arguments.stay || std::process::id() == 1);
    boot::run(
        settings,
        RunOptions {
            origin,
            config,
            pid_file,
            stay,
            hangup: Hangup::Reload,
            predecessor,
            says: None,
            warnings,
            new_keys,
        },
    )
}

const KEYRING: &str = "apisix.data_encryption.keyring";
const NO_FILE: &str = " does not exist: the defaults take effect";

/// Of a config.yaml that a running gateway, or its successor, reads again: the command that asked for it has another environment.
fn with_environment(error: anyhow::Error) -> anyhow::Error {
    match lacks_variable(&error) {
        true => anyhow::anyhow!(
            "{error:#}; reload and upgrade keep the environment that the gateway was started with, not that of this shell: write \
             the value itself into config.yaml, or restart the gateway with the variable"
        ),
        false => error,
    }
}

/// Whether config.yaml cannot be read for want of an environment variable.
pub(super) fn lacks_variable(error: &anyhow::Error) -> bool {
    format!("{error:#}").contains("can't find environment variable")
}
