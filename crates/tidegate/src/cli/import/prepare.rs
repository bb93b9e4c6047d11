//! What is imported, before it is written or served.

use std::{fs, path::Path};

use anyhow::{Context, anyhow, bail};
use tidegate_import::{Imported, Options, Placement, Source};
use tidegate_model::Kind;

use super::{
    super::{
        output::{Access, Output},
        printable::printable_lines,
    },
    Reading,
    beside::{self, Beside},
};
use crate::{boot, say::complain};

/// Converts `KIND:FILE` to an apisix.yaml at `target`.
pub(super) fn prepare(
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
pub(super) fn read(
    kind: &str,
    file: &Path,
    reading: &Reading,
    strict: bool,
    listeners: Placement,
) -> anyhow::Result<Imported> {
    let imported = convert(kind, file, reading, listeners)?;
    let shown = file.display().to_string();
    let report = imported.report.text(&shown);
    if !report.is_empty() {
        complain!("{}", printable_lines(report.trim_end_matches('\n')));
    }
    if strict && !imported.report.is_exact() {
        bail!("{shown}: some answers would differ, and --strict was given");
    }
    Ok(imported)
}

/// Reads and converts without a report.
pub(super) fn convert(
    kind: &str,
    file: &Path,
    reading: &Reading,
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
                imported.report.unsupported(0, &format!("{collection} {id}"), &message);
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
