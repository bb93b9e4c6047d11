//! `tidegate import KIND FILE`, and what `tidegate run --from KIND:FILE` does before it serves.

mod answer;
mod apply;
mod beside;
mod check_against;
mod served;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, anyhow, bail};
use beside::Beside;
pub use beside::Reading;
pub use served::serve;
use tidegate_config::settings::{Access, AdminKey};
use tidegate_import::{Imported, Options, Placement, Source};
use tidegate_model::Kind;

use super::{Place, printable::printable_lines};
use crate::boot;

#[derive(clap::Args)]
pub struct Arguments {
    /// Whose configuration it is: kong, hyperapi, nginx or apisix
    kind: String,
    file: PathBuf,
    /// Write the objects to this file, in the form of apisix.yaml; without it and --apply they are printed
    #[arg(long, value_name = "FILE")]
    to: Option<PathBuf>,
    /// Put the objects into a running gateway through its Admin API
    #[arg(long, conflicts_with = "to")]
    apply: bool,
    /// Where --apply finds the Admin API
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9180")]
    admin: String,
    /// The key of the Admin API; without it the one of the gateway at --prefix
    #[arg(long, value_name = "KEY", env = "ADMIN_KEY", hide_env_values = true)]
    admin_key: Option<String>,
    /// Refuse a configuration some of whose answers differ
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    reading: Reading,
    /// nginx: ask the real one and the conversion what the locations suggest, with GET and HEAD, and show differences
    #[arg(long, value_name = "URL", conflicts_with_all = ["to", "apply"])]
    check_against: Option<String>,
}

pub fn run(place: &Place, arguments: &Arguments) -> anyhow::Result<()> {
    let reading = &arguments.reading;
    if let Some(url) = &arguments.check_against {
        let target = check_against::Target::parse(url)?;
        let placement = Placement::Replaced(Some(target.port()));
        let imported = read(&arguments.kind, &arguments.file, reading, arguments.strict, placement)?;
        return check_against::run(&target, &arguments.file, reading, &imported);
    }
    let placement = if arguments.apply { Placement::Running } else { Placement::Elsewhere };
    let imported = read(&arguments.kind, &arguments.file, reading, arguments.strict, placement)?;
    if arguments.apply {
        let key = match &arguments.admin_key {
            Some(key) => key.clone(),
            None => own_key(place)
                .context("--apply needs --admin-key, ADMIN_KEY, or the --prefix of the gateway")?,
        };
        return apply::apply(&imported.output, &arguments.admin, &key);
    }
    let text = imported.output.yaml().map_err(anyhow::Error::msg)?;
    match &arguments.to {
        Some(path) => write(path, &text),
        None => {
            print!("{text}");
            Ok(())
        }
    }
}

/// The key of the gateway at --prefix; empty where it asks for none.
fn own_key(place: &Place) -> anyhow::Result<String> {
    match place.load_with_key()?.admin.access {
        Access::Open => Ok(String::new()),
        keys => keys.admin_key().and_then(AdminKey::value).map(str::to_owned).context("it has no admin key"),
    }
}

/// Converts `KIND:FILE` to an apisix.yaml at `target`.
fn prepare(
    from: &str,
    target: &Path,
    reading: &Reading,
    strict: bool,
    placement: Placement,
) -> anyhow::Result<Imported> {
    let (kind, file) = from
        .split_once(':')
        .with_context(|| format!("--from {from}: give KIND:FILE, like kong:kong.yaml"))?;
    let imported = read(kind, Path::new(file), reading, strict, placement)?;
    write(target, &imported.output.yaml().map_err(anyhow::Error::msg)?)?;
    Ok(imported)
}

/// Reads and converts; the report goes to standard error, so that the objects can be piped.
fn read(
    kind: &str,
    file: &Path,
    reading: &Reading,
    strict: bool,
    listeners: Placement,
) -> anyhow::Result<Imported> {
    let source = Source::from_name(kind)
        .with_context(|| format!("cannot import {kind:?}; {} can be imported", Source::NAMES))?;
    let shown = file.display().to_string();
    let text = beside::read_text(file).with_context(|| format!("cannot read {shown}"))?;
    let files = Beside::new(file, reading)?;
    let imported = tidegate_import::import(
        source,
        &text,
        &files,
        Options { listeners, allow_missing: reading.allow_missing().to_vec() },
    );
    let mut imported = imported.map_err(|message| anyhow!("{shown}:{message}"))?;
    check(&mut imported)?;
    eprint!("{}", printable_lines(&imported.report.text(&shown)));
    if strict && !imported.report.is_exact() {
        bail!("{shown}: some answers would differ, and --strict was given");
    }
    Ok(imported)
}

/// What the gateway would leave out: values that the other one takes and this one does not.
fn check(imported: &mut Imported) -> anyhow::Result<()> {
    let catalog = boot::catalog(None)?;
    for (collection, objects) in imported.output.lists() {
        let Some((_, kind)) = tidegate_store::COLLECTIONS.iter().find(|(name, _)| *name == collection) else {
            continue;
        };
        for object in objects {
            let id = object.get("id").or_else(|| object.get("username"));
            let id =
                id.map_or_else(String::new, |id| id.as_str().map_or_else(|| id.to_string(), str::to_owned));
            let kind = if id.contains("/credentials/") { Kind::Credential } else { *kind };
            let mut object = object.clone();
            object["id"] = id.clone().into();
            if let Err(message) = boot::check_object(&catalog, kind, &id, &object) {
                imported.report.unsupported(0, &format!("{collection} {id}"), &message);
            }
        }
    }
    Ok(())
}

/// The file holds secrets: nobody else may read it.
fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    use std::{io::Write, os::unix::fs::OpenOptionsExt};
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    file.and_then(|mut file| file.write_all(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
