//! `tidegate run`: serve in the foreground.

use config::{Provider, Role, Settings};

use super::{Place, daemon, import};
use crate::boot::{self, RunOptions};

#[derive(clap::Args)]
pub struct Arguments {
    /// Serve the configuration of another gateway: kong, hyperapi, nginx or apisix, a colon and the file
    #[arg(long, value_name = "KIND:FILE")]
    from: Option<String>,
    /// Refuse a configuration of --from that is not converted exactly
    #[arg(long, requires = "from")]
    strict: bool,
}

pub fn run(place: &Place, arguments: &Arguments) -> anyhow::Result<()> {
    let mut loaded = place.load()?;
    match &arguments.from {
        Some(from) => serve_imported(from, arguments.strict, &mut loaded.settings)?,
        None => loaded.fill_admin_keys()?,
    }
    for warning in &loaded.warnings {
        eprintln!("tidegate: warning: {warning}");
    }
    let settings = loaded.settings;
    // Held until the end; a second gateway with the same prefix stops here.
    let _pid_file = daemon::PidFile::create(&settings.files.pid)?;
    let options = RunOptions { on_ready: Some(Box::new(daemon::announce_ready)), ..RunOptions::default() };
    boot::run(settings, options)
}

/// The file that was converted takes the place of apisix.yaml; there is no Admin API to change it behind its back.
fn serve_imported(from: &str, strict: bool, settings: &mut Settings) -> anyhow::Result<()> {
    let target = settings.files.prefix.join("data").join("imported.yaml");
    import::prepare(from, &target, strict)?;
    settings.files.resources_yaml = target;
    settings.provider = Provider::Yaml;
    // The other gateway has no list to switch plugins on: what its configuration names is on.
    for plugin in plugins::registry::PLUGINS {
        if !settings.plugins.iter().any(|name| name == plugin.name) {
            settings.plugins.push(plugin.name.to_owned());
        }
    }
    settings.role = Role::DataPlane;
    std::fs::create_dir_all(&settings.files.logs)?;
    Ok(())
}
