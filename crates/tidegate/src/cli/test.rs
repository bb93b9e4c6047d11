//! `tidegate test`: check the configuration without starting.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use anyhow::bail;
use config::{Provider, Settings};
use plugin::Catalog;
use store::file::{Format, Options};

use super::Place;
use crate::boot;

pub fn run(place: &Place) -> anyhow::Result<()> {
    let loaded = place.load()?;
    for warning in &loaded.warnings {
        eprintln!("warning: {warning}");
    }
    if let Err(reason) = discovery::check(&loaded.settings.discovery) {
        bail!("{}: {reason}", loaded.settings.files.config.display());
    }
    println!("{} is good", loaded.settings.files.config.display());
    if let Some((path, format)) = resources(&loaded.settings) {
        check_file(&path, format, &loaded.settings.plugins)?;
    }
    println!("configuration test is successful");
    Ok(())
}

/// The file with resources, if that is where they come from.
fn resources(settings: &Settings) -> Option<(PathBuf, Format)> {
    match settings.provider {
        Provider::Yaml => Some((settings.files.resources_yaml.clone(), Format::Yaml)),
        Provider::Json => Some((settings.files.resources_json.clone(), Format::Json)),
        Provider::Embedded | Provider::Etcd | Provider::ApiDriven | Provider::Xds => None,
    }
}

fn check_file(path: &std::path::Path, format: Format, plugins: &[String]) -> anyhow::Result<()> {
    let catalog = Catalog::new(plugins::registry::PLUGINS, Some(plugins)).map_err(anyhow::Error::msg)?;
    let problems = Arc::new(AtomicUsize::new(0));
    let counted = problems.clone();
    let options = Options {
        format,
        check: Box::new(move |kind, id, value| boot::check_object(&catalog, kind, id, value)),
        choose_plugins: None,
        report: Box::new(move |message| {
            counted.fetch_add(1, Ordering::Relaxed);
            eprintln!("error: {message}");
        }),
        interval: Duration::ZERO,
    };
    let objects = store::file::check(path, &options).map_err(anyhow::Error::msg)?;
    match problems.load(Ordering::Relaxed) {
        0 => {
            println!("{} is good: {objects} objects", path.display());
            Ok(())
        }
        count => bail!("problems in {}: {count}; good objects: {objects}", path.display()),
    }
}
