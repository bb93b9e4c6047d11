//! `tidegate config ...`: the whole configuration of the running gateway, and its past.

mod store_files;

use std::{
    borrow::Cow,
    num::NonZeroUsize,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use tidegate_config::{Provider, Settings};
use tidegate_protocol::uri::encoded_component;

use super::{
    admin_api,
    count::objects,
    output::{Access, Output},
    place::SharedOptions,
    printable::{printable, printable_lines},
    stdout, usage,
};

/// The most that the Admin API puts on a page.
const LARGEST_PAGE: usize = 500;

#[derive(Subcommand)]
pub(super) enum Verb {
    /// Print all objects in the format of apisix.yaml, including secrets
    Export {
        /// Write to this file, readable only by its owner
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Import all objects of a file in the format of apisix.yaml, or none
    Import(Import),
    /// Show what differs between the running gateway (-) and a file in the format of apisix.yaml (+)
    ///
    /// Secrets are shown as `***`. Exit code 0 without a difference, 1 with one, 2 if it could not be determined.
    Diff(Diff),
    /// Show who changed what, newest first
    History(History),
    /// Restore the configuration of a revision or checkpoint
    Rollback(Rollback),
    /// Save the current configuration under a name to roll back to
    Checkpoint {
        /// The name
        name: String,
    },
    /// Write a backup of everything acknowledged to a file, with secrets encrypted as in the store
    ///
    /// Works with the running gateway, or with its store while it is stopped. Needs `config_provider: embedded`. The
    /// file has mode 0600 and a checksum, and contains neither history nor checkpoints. Exit code 0 once the file is
    /// durable, 1 if it was not written.
    Backup {
        /// The file to write
        file: PathBuf,
    },
    /// Replace the store with a backup while the gateway is stopped
    ///
    /// The old store is kept under another name in the same folder. Exit code 0 on success, 1 if nothing was changed.
    Restore {
        /// A file that `config backup` wrote
        file: PathBuf,
    },
    /// Report what is wrong with the store, and rebuild it from what is left
    ///
    /// The gateway must not have the store open; one that serves the last good configuration may run, and loads the
    /// repaired store with `tidegate upgrade`. Nothing is deleted: a damaged file is renamed to .damaged-N. Exit code 0
    /// if nothing was wrong or the store is repaired, 1 if nothing can be recovered, 2 if acknowledged changes would be
    /// lost: without --accept-loss nothing is changed then.
    Repair(Repair),
}

#[derive(Args)]
pub(super) struct Repair {
    /// Continue with what is left, without the newest changes
    #[arg(long)]
    accept_loss: bool,
    /// Only show what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(super) struct Import {
    /// The file to read
    file: PathBuf,
    /// Delete the objects that are not in the file
    #[arg(long)]
    replace: bool,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args)]
pub(super) struct Diff {
    /// The file to compare with
    file: PathBuf,
    /// Ignore objects that are not in the file
    #[arg(long)]
    merge: bool,
}

#[derive(Args)]
pub(super) struct History {
    /// Show what this change did, field by field
    revision: Option<u64>,
    /// Only changes of this object, like /routes/1
    #[arg(long, value_name = "PATH")]
    key: Option<String>,
    /// Only changes after this revision
    #[arg(long, value_name = "REVISION", default_value_t = 0)]
    since: u64,
    /// Maximum number of entries, at least 1
    #[arg(short = 'n', long, value_name = "NUMBER", default_value = "20")]
    number: NonZeroUsize,
    /// Print JSON, as returned by GET /apisix/admin/history
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub(super) struct Rollback {
    /// A revision from `config history`, or the name of a checkpoint
    to: String,
    /// Only this object, like /routes/1, with what comes and goes with it
    #[arg(long, value_name = "PATH")]
    key: Option<String>,
    /// Only show what would change
    #[arg(long)]
    dry_run: bool,
}

pub(super) fn run(place: &SharedOptions, verb: &Verb) -> anyhow::Result<ExitCode> {
    match verb {
        Verb::Backup { file } => store_files::backup(place, file).map(|()| ExitCode::SUCCESS),
        Verb::Restore { file } => store_files::restore(place, file).map(|()| ExitCode::SUCCESS),
        Verb::Repair(arguments) => store_files::repair(place, arguments.accept_loss, arguments.dry_run),
        // As diff(1).
        Verb::Diff(arguments) => {
            diff(place, arguments).map_err(|error| usage::Unusable(format!("{error:#}")).into())
        }
        other => with_admin_api(place, other).map(|()| ExitCode::SUCCESS),
    }
}

fn with_admin_api(place: &SharedOptions, verb: &Verb) -> anyhow::Result<()> {
    let settings = place.load_with_key()?;
    match verb {
        Verb::Backup { .. } | Verb::Restore { .. } | Verb::Repair(_) | Verb::Diff(_) => Ok(()),
        Verb::Export { output } => export(&settings, output.as_ref()),
        Verb::Import(arguments) => import(&settings, arguments),
        Verb::History(arguments) => history(&settings, arguments),
        Verb::Rollback(arguments) => rollback(&settings, arguments),
        Verb::Checkpoint { name } => {
            if name.is_empty() {
                bail!("a checkpoint needs a name of 1 to 64 letters, digits, -, _ or .");
            }
            let made = ask_json(&settings, "PUT", &format!("checkpoints/{}", encoded_component(name)), "")?;
            let (revision, count) = (&made["revision"], made["objects"].as_u64().unwrap_or_default());
            stdout::line(&format!("checkpoint {name} is revision {revision}, {}", objects(count)));
            Ok(())
        }
    }
}

fn ask(
    settings: &Settings,
    method: &str,
    path: &str,
    content_type: &str,
    body: &str,
) -> anyhow::Result<String> {
    let instead = match settings.provider {
        Provider::Yaml => in_a_file(&settings.files.resources_yaml),
        Provider::Json => in_a_file(&settings.files.resources_json),
        Provider::Embedded | Provider::Etcd | Provider::ApiDriven => {
            "start it, or give --prefix or --config of the running one".to_owned()
        }
    };
    admin_api::ask(settings, &admin_api::Question { method, path, content_type, body, instead: &instead })
}

fn in_a_file(path: &Path) -> String {
    format!("the configuration is {}: read and edit that file, and keep its history in git", path.display())
}

fn ask_json(settings: &Settings, method: &str, path: &str, body: &str) -> anyhow::Result<Value> {
    let answer = ask(settings, method, path, "application/json", body)?;
    serde_json::from_str(&answer).context("the Admin API answered without JSON")
}

fn export(settings: &Settings, output: Option<&PathBuf>) -> anyhow::Result<()> {
    let text = ask(settings, "GET", "export", "application/json", "")?;
    let Some(path) = output else {
        stdout::print(&text);
        return Ok(());
    };
    Output::open(path, Access::Private)
        .and_then(|output| output.write(text.as_bytes()))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn import(settings: &Settings, arguments: &Import) -> anyhow::Result<()> {
    print_changes(&send(settings, &arguments.file, arguments.replace, arguments.dry_run)?);
    Ok(())
}

fn diff(place: &SharedOptions, arguments: &Diff) -> anyhow::Result<ExitCode> {
    let settings = place.load_with_key()?;
    let answer = send(&settings, &arguments.file, !arguments.merge, true)?;
    let changes = list(&answer["changes"]);
    changes.iter().for_each(print_change);
    // What could not be shown could not be determined.
    stdout::problem()?;
    Ok(if changes.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the Admin API answers to a file.
fn send(settings: &Settings, file: &Path, replace: bool, dry_run: bool) -> anyhow::Result<Value> {
    let shown = file.display();
    let text = tidegate_config::bounded::read_text(file).with_context(|| format!("cannot read {shown}"))?;
    let mode = if replace { "replace" } else { "merge" };
    let path = format!("import?mode={mode}&dry_run={dry_run}");
    let json = file.extension().is_some_and(|extension| extension == "json");
    let content_type = if json { "application/json" } else { "application/yaml" };
    let answer = ask(settings, "PUT", &path, content_type, &text).with_context(|| format!("{shown}"))?;
    serde_json::from_str(&answer).context("the Admin API answered without JSON")
}

fn rollback(settings: &Settings, arguments: &Rollback) -> anyhow::Result<()> {
    let mut to = match arguments.to.parse::<u64>() {
        Ok(revision) => json!({"revision": revision, "dry_run": arguments.dry_run}),
        Err(_) => json!({"checkpoint": arguments.to, "dry_run": arguments.dry_run}),
    };
    if let Some(key) = &arguments.key {
        to["key"] = json!(key);
    }
    print_changes(&ask_json(settings, "POST", "rollback", &to.to_string())?);
    Ok(())
}

/// What was changed, or would be.
fn print_changes(answer: &Value) {
    let dry_run = answer["dry_run"] == true;
    let changes = list(&answer["changes"]);
    changes.iter().for_each(print_change);
    let (count, revision) = (objects(changes.len() as u64), &answer["revision"]);
    if dry_run {
        stdout::line(&format!("{count} would change; the configuration stays at revision {revision}"));
    } else {
        stdout::line(&format!("{count} changed; the configuration is at revision {revision}"));
    }
}

fn print_change(change: &Value) {
    stdout::line(&format!("{} {}", text(&change["action"]), text(&change["resource"])));
    list(&change["diff"]).iter().for_each(print_field);
}

fn print_field(entry: &Value) {
    let path = match text(&entry["path"]) {
        path if path.is_empty() => Cow::Borrowed("(all)"),
        path => path,
    };
    for (sign, value) in [("-", entry.get("before")), ("+", entry.get("after"))] {
        if let Some(value) = value {
            stdout::line(&format!("  {sign} {path}: {}", printable(&value.to_string())));
        }
    }
}

fn history(settings: &Settings, arguments: &History) -> anyhow::Result<()> {
    let answer = match arguments.revision {
        Some(revision) => one_change(settings, revision)?,
        None => newest_changes(settings, arguments)?,
    };
    if arguments.json {
        stdout::line(&printable_lines(&serde_json::to_string_pretty(&answer)?));
        return Ok(());
    }
    if arguments.revision.is_some() {
        print_entry(&answer);
        list(&answer["changes"]).iter().for_each(print_change);
        return Ok(());
    }
    let entries = list(&answer["list"]);
    entries.iter().for_each(print_entry);
    let oldest = &answer["oldest"];
    stdout::line(&format!(
        "{} of {}; rollback is possible back to revision {oldest}",
        entries.len(),
        answer["total"]
    ));
    Ok(())
}

/// As many pages as that takes. Others may write meanwhile: what a page repeats is left out.
fn newest_changes(settings: &Settings, arguments: &History) -> anyhow::Result<Value> {
    let key = arguments.key.as_ref().map(|key| format!("&key={}", encoded(key))).unwrap_or_default();
    let (wanted, since) = (arguments.number.get(), arguments.since);
    let size = wanted.min(LARGEST_PAGE);
    let mut entries: Vec<Value> = Vec::new();
    let mut page = 0_u64;
    loop {
        page += 1;
        let path = format!("history?page={page}&page_size={size}&since={since}{key}");
        let mut answer = ask_json(settings, "GET", &path, "")?;
        let older = entries.last().map_or(u64::MAX, revision_of);
        let found = take_list(&mut answer, "list");
        let last_page = found.len() < size;
        entries.extend(found.into_iter().filter(|entry| revision_of(entry) < older));
        entries.truncate(wanted);
        if last_page || entries.len() == wanted {
            answer["list"] = Value::Array(entries);
            return Ok(answer);
        }
    }
}

/// The change with all of its objects.
fn one_change(settings: &Settings, revision: u64) -> anyhow::Result<Value> {
    let page = |page: usize| {
        ask_json(settings, "GET", &format!("history/{revision}?page={page}&page_size={LARGEST_PAGE}"), "")
    };
    let mut answer = page(1)?;
    let mut changes = take_list(&mut answer, "changes");
    let mut size = changes.len();
    for number in 2.. {
        if size < LARGEST_PAGE {
            break;
        }
        let more = take_list(&mut page(number)?, "changes");
        size = more.len();
        changes.extend(more);
    }
    answer["changes"] = Value::Array(changes);
    Ok(answer)
}

fn revision_of(entry: &Value) -> u64 {
    entry["revision"].as_u64().unwrap_or(0)
}

fn take_list(answer: &mut Value, name: &str) -> Vec<Value> {
    match answer.get_mut(name).map(Value::take) {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    }
}

fn print_entry(entry: &Value) {
    let who = &entry["who"];
    let name = printable(who["name"].as_str().unwrap_or("-"));
    let address = printable(who["address"].as_str().unwrap_or("-"));
    let what = entry["note"].as_str().map_or_else(|| text(&entry["request"]), printable);
    let objects: Vec<Cow<'_, str>> =
        list(&entry["objects"]).iter().map(|object| text(&object["resource"])).collect();
    let count = entry["total"].as_u64().unwrap_or(0);
    let more = if !objects.is_empty() && count > objects.len() as u64 { " ..." } else { "" };
    stdout::line(&format!(
        "{:>8}  {}  {name} {address}  {what}  {}{more}",
        entry["revision"],
        text(&entry["time"]),
        objects.join(" ")
    ));
    if entry["left_out"].is_string() {
        stdout::line(&format!("          {}", text(&entry["left_out"])));
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> Cow<'_, str> {
    printable(value.as_str().unwrap_or_default())
}

/// For a query, where slashes are plain.
fn encoded(text: &str) -> String {
    text.split('/').map(encoded_component).collect::<Vec<_>>().join("/")
}
