//! `tidegate config backup`, `restore` and `repair`: the files of the embedded store.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context, anyhow, bail};
use tidegate_config::{Provider, Settings};
use tidegate_store::embedded::{
    Lag,
    copy::{self, Kept},
    repair::{self, Repair, Source},
};

use crate::{
    boot::{
        commands::{fresh_copy, whole_copy},
        pid_file,
    },
    cli::{
        count::objects,
        doctor::trial,
        output::{Access, Output},
        place::SharedOptions,
        stdout,
    },
    say::complain,
};

/// Something would be lost, and the operator has not accepted that.
const LOSS: u8 = 2;

const PATIENCE: Duration = Duration::from_secs(60);

/// The settings, provided that there is a store of the gateway's own.
fn with_store(place: &SharedOptions) -> anyhow::Result<Settings> {
    let settings = place.load()?.settings;
    match settings.provider {
        Provider::Embedded => Ok(settings),
        Provider::Etcd => {
            bail!("the configuration is in etcd; use etcd's own snapshots (`etcdctl snapshot`)")
        }
        Provider::Yaml => {
            bail!("the configuration is {}; copy that file", settings.files.resources_yaml.display())
        }
        Provider::Json => {
            bail!("the configuration is {}; copy that file", settings.files.resources_json.display())
        }
        Provider::ApiDriven => {
            bail!("the gateway keeps no configuration; what was sent last is at GET /apisix/admin/configs")
        }
    }
}

pub(super) fn backup(place: &SharedOptions, file: &Path) -> anyhow::Result<()> {
    let settings = with_store(place)?;
    let database = &settings.files.database;
    let same = |own: &Path| file.exists() && own.canonicalize().ok() == file.canonicalize().ok();
    if same(database) || same(&copy::place(database)) || same(&database.with_extension("created")) {
        bail!("{} is a file of the store itself; name another one", file.display());
    }
    // Before the store is read: a wrong path must not cost the time of that.
    let unwritable = |error: io::Error| anyhow!("cannot write {}: {error}", file.display());
    let output = Output::open(file, Access::Private).map_err(unwritable)?;
    let kept = match pid_file::running(&settings.files.pid)? {
        Some(pid) => running_state(&settings, pid)?,
        None => repair::backup(database)?,
    };
    let (revision, count, users) = (kept.head.revision, kept.head.objects, counted(kept.users.len()));
    output.fill(|out| kept.write(out)).map_err(unwritable)?;
    stdout::line(&format!("{}: revision {revision}, {}{users}", file.display(), objects(count)));
    Ok(())
}

/// All that the gateway has acknowledged: from its copy, or from its memory where the disk has no room for that.
fn running_state(settings: &Settings, pid: i32) -> anyhow::Result<Kept> {
    let path = match fresh_copy(&settings.files.pid, pid, PATIENCE) {
        Ok(path) => path,
        Err(reason) => {
            let bytes = whole_copy(&settings.files.pid, pid, PATIENCE);
            let bytes = bytes.with_context(|| format!("backup failed: {reason:#}"))?;
            return copy::parse(&bytes)
                .map_err(|reason| anyhow!("backup failed: invalid copy from process {pid}: {reason}"));
        }
    };
    let kept = copy::read(&path).map_err(|reason| anyhow!("{}: {reason}", path.display()))?;
    kept.with_context(|| format!("{} has gone meanwhile", path.display()))
}

pub(super) fn restore(place: &SharedOptions, file: &Path) -> anyhow::Result<()> {
    let settings = with_store(place)?;
    if let Some(pid) = pid_file::running(&settings.files.pid)? {
        bail!(
            "the gateway runs as process {pid}; stop it first: `tidegate stop` waits until it has ended, `tidegate quit` does not"
        );
    }
    let restored = repair::restore(&settings.files.database, file)?;
    let (path, head) = (settings.files.database.display(), restored.head);
    stdout::line(&format!(
        "{path} now holds the {} of revision {}, as revision {}; its history starts over",
        objects(head.objects),
        head.revision,
        restored.revision
    ));
    match (restored.users, restored.users_stay) {
        (0, _) => {}
        (users, true) => stdout::line(&format!("users of the replaced store, which stay: {users}")),
        (users, false) => stdout::line(&format!("users from the backup: {users}")),
    }
    print_kept_files(&restored.aside);
    warn_of_unusable(place);
    Ok(())
}

/// Users, where there are any.
fn counted(users: usize) -> String {
    match users {
        0 => String::new(),
        1 => " and 1 user".to_owned(),
        _ => format!(" and {users} users"),
    }
}

/// A backup has the secrets as they were encrypted, and not the keyring that decrypts them.
fn warn_of_unusable(place: &SharedOptions) {
    const SHOWN: usize = 3;
    let said = match place.arguments().and_then(|arguments| trial::test(&arguments)) {
        Ok(said) => said,
        Err(error) => {
            return complain!(
                "tidegate: warning: whether the objects can be used was not checked: {error:#}"
            );
        }
    };
    let faults: Vec<&str> = said.faults().collect();
    if let Some(first) = faults.get(..SHOWN.min(faults.len())).filter(|first| !first.is_empty()) {
        complain!(
            "tidegate: warning: with this config.yaml {} of the objects cannot be used, and deny what they guard:\n  {}\n\
             If they cannot be decrypted, bring back the conf/config.yaml of the backup: apisix.data_encryption.keyring is in it. \
             `tidegate test` names all.",
            faults.len(),
            first.join("\n  ")
        );
    }
}

pub(super) fn repair(place: &SharedOptions, accept_loss: bool, dry_run: bool) -> anyhow::Result<ExitCode> {
    let settings = with_store(place)?;
    let database = &settings.files.database;
    // One that serves the last good configuration has no store open.
    if !database.exists()
        && let Some(pid) = pid_file::running(&settings.files.pid)?
        && tidegate_store::embedded::holds_removed(pid, database)
    {
        bail!(
            "{} was removed while the gateway, process {pid}, has it open; stop it first",
            database.display()
        );
    }
    let Some(found) = repair::inspect(database)? else {
        stdout::line(&format!("{} is intact; there is nothing to repair", database.display()));
        return Ok(ExitCode::SUCCESS);
    };
    stdout::line(&found.problem);
    stdout::line(&plan(&found));
    if dry_run {
        return Ok(if found.lost == Lag::Nothing { ExitCode::SUCCESS } else { ExitCode::from(LOSS) });
    }
    if found.lost != Lag::Nothing && !accept_loss {
        complain!(
            "tidegate: nothing was changed, because what the lost changes closed or guarded would be open; \
             use --accept-loss to go on without them"
        );
        return Ok(ExitCode::from(LOSS));
    }
    let done = repair::carry_out(database, found)?;
    stdout::line(&format!("{} is repaired", database.display()));
    print_kept_files(&done.aside);
    Ok(ExitCode::SUCCESS)
}

/// What there is to continue with, and what is lost.
fn plan(found: &Repair) -> String {
    let (source, history) = match &found.source {
        Source::Store { revision, objects: count } => (
            format!("the file itself holds revision {revision} with {}", objects(*count)),
            "its history stays",
        ),
        Source::Copy { path, head, users } => (
            format!(
                "the last good configuration, {}, holds revision {} with {}{}",
                path.display(),
                head.revision,
                objects(head.objects),
                counted(*users)
            ),
            "the history and the checkpoints are lost",
        ),
    };
    format!("{source}; {}; {history}", found.lost.words())
}

fn print_kept_files(aside: &[PathBuf]) {
    for path in aside {
        stdout::line(&format!("kept: {}", path.display()));
    }
}
