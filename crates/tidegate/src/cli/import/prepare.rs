//! What is imported, before it is written or served.

use std::{fs, path::Path};

use anyhow::{Context, anyhow, bail};
use tidegate_import::{Conversion, Imported, Options, Placement, Source};
use tidegate_model::Kind;

use super::{
    super::{
        output::{Access, Output},
        printable::printable_lines,
    },
    Reading,
    beside::{self, Beside},
    objects::{self, Config},
};
use crate::{boot, say::complain};

/// Of `KIND`.
pub(super) fn named(kind: &str) -> anyhow::Result<Source> {
    Source::from_name(kind)
        .with_context(|| format!("cannot import {kind:?}; {} can be imported", Source::NAMES))
}

/// Reads and converts; the report goes to standard error, so that the objects can be piped. `config`: what they are served with, where
/// that is known.
pub(super) fn read(
    source: Source,
    file: &Path,
    reading: &Reading,
    strict: bool,
    listeners: Placement,
    config: Option<&Config>,
) -> anyhow::Result<Imported> {
    reading.fits(source)?;
    let imported = convert(source, file, reading, listeners, config)?;
    for text in reading.in_vain(source, file, &imported.report) {
        complain!("{}", printable_lines(&text));
    }
    let shown = file.display().to_string();
    let report = imported.report.text(&shown);
    if !report.is_empty() {
        complain!("{}", printable_lines(report.trim_end_matches('\n')));
    }
    if strict && !imported.report.is_exact() {
        bail!("{shown}: some answers would differ, and --strict was given");
    }
    let has_objects = imported.output.lists().any(|(_, objects)| !objects.is_empty());
    if !has_objects && imported.report.count(Conversion::Unsupported) > 0 {
        bail!(
            "{shown}: nothing of it can be converted, and nothing was written; is it a file of {}?",
            source.name()
        );
    }
    Ok(imported)
}

/// Reads and converts without a report.
pub(super) fn convert(
    source: Source,
    file: &Path,
    reading: &Reading,
    listeners: Placement,
    config: Option<&Config>,
) -> anyhow::Result<Imported> {
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
    if let Some(pattern) = files.unused() {
        bail!("--include-empty {pattern} has no effect: {shown} includes no file of this name; leave it out");
    }
    match source {
        Source::Apisix => objects::report_objects(file, &text, config, &mut imported.report)?,
        Source::Nginx | Source::Kong | Source::Hyperapi => check(&mut imported)?,
    }
    Ok(imported)
}

/// What the gateway would leave out: values that the other one takes and this one does not.
pub(super) fn check(imported: &mut Imported) -> anyhow::Result<()> {
    let catalog = crate::boot::catalog(None)?;
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
                imported.report.refused(collection, &id, &message);
            }
        }
    }
    Ok(())
}

/// The file holds secrets: no other user may read it.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    Output::open(path, Access::Private)
        .and_then(|output| output.write(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}
