//! `tidegate test`: everything a start does, up to the first request.

use std::{collections::HashSet, net::SocketAddr, sync::atomic::Ordering, time::Duration};

use anyhow::{Context, anyhow};
use tidegate_config::{Provider, Settings, settings::Level};
use tidegate_store::Store;
use tidegate_telemetry::error_log;

use super::{
    commands::{Lost, fresh_copy, undecryptable},
    etcd,
    folders::writable,
    logs, notices, pid_file,
    prepare::{Prepared, prepare},
    purpose::{Purpose, Trial},
    sockets::Sockets,
};

/// How a start would end.
pub(crate) struct TrialResult {
    /// Objects in use, as far as the trial could see.
    pub objects: usize,
    /// Objects that would be left out. Each has been named.
    pub problems: usize,
    /// The gateway of this prefix that runs meanwhile.
    pub running: Option<i32>,
    /// Why its objects are those of some seconds ago.
    pub outdated: Option<String>,
    /// Addresses that are taken, by that gateway itself.
    pub own: Vec<SocketAddr>,
}

/// To write its copy, for the gateway that runs.
const COPY_LIMIT: Duration = Duration::from_secs(10);

/// What would be in the log is printed instead, and no log file is made.
pub(super) fn without_logs(settings: &mut Settings) {
    settings.nginx.error_log = "stderr".to_owned();
    settings.nginx.access_log.enable = false;
    settings.nginx.stream_log.enable = false;
    settings.admin.audit_log = None;
}

/// Prepares and lets go again. The error is what a start would end with.
pub(crate) fn run(mut settings: Settings) -> anyhow::Result<TrialResult> {
    for (key, file) in logs::files(&settings) {
        let path = settings.below_prefix(file);
        writable(&path).map_err(|error| {
            logs::unusable(&settings, key, &format!("cannot open log file {}: {error:#}", path.display()))
        })?;
    }
    writable(&settings.files.pid)
        .context("cannot write the pid file; check permissions, or give another --prefix")?;
    without_logs(&mut settings);
    settings.nginx.error_log_level = settings.nginx.error_log_level.min(Level::Warn);
    // A trial does not probe upstreams.
    settings.apisix.disable_upstream_healthcheck = true;
    let trial = Trial { running: pid_file::running(&settings.files.pid)?, ..Trial::default() };
    let outdated = match trial.running.filter(|_| settings.provider == Provider::Embedded) {
        Some(pid) => fresh_copy(&settings.files.pid, pid, COPY_LIMIT).err().map(|error| format!("{error:#}")),
        None => None,
    };
    let lost = lost(&settings, &trial);
    let sockets = Sockets::trial(trial.running);
    let prepared = prepare(&settings, &sockets, &Purpose::Trial(&trial), &[]).map(|prepared| {
        let Prepared { runtime, provider, compiler, .. } = prepared;
        drop(compiler);
        tell_lost(&lost, provider.store().as_ref(), &trial);
        provider.close();
        runtime.shutdown_timeout(Duration::from_millis(100));
    });
    etcd::remove_trial_snapshot(&settings);
    // Messages name the original, not the copy.
    let (copy, original) = (etcd::trial_snapshot(), etcd::snapshot(&settings));
    prepared.map_err(|error| {
        anyhow!(format!("{error:#}").replace(&copy.display().to_string(), &original.display().to_string()))
    })?;
    Ok(TrialResult {
        objects: trial.objects.load(Ordering::Relaxed),
        problems: trial.problems.load(Ordering::Relaxed),
        running: trial.running,
        outdated,
        own: sockets.own(),
    })
}

/// What the running gateway could not decrypt with this keyring. Its copy of the objects does not show it: that is encrypted by the
/// first key of the gateway.
fn lost(settings: &Settings, trial: &Trial) -> Vec<Lost> {
    let Some(pid) = trial.running.filter(|_| settings.provider == Provider::Embedded) else {
        return Vec::new();
    };
    let keyring = &settings.apisix.data_encryption.keyring;
    undecryptable(&settings.files.pid, keyring, COPY_LIMIT).unwrap_or_else(|error| {
        let what = "which objects need a key that is not in the keyring";
        notices::print(&format!("process {pid} does not say {what}: {error:#}"));
        Vec::new()
    })
}

/// Those that the copy shows as well have been named.
fn tell_lost(lost: &[Lost], store: &dyn Store, trial: &Trial) {
    let mut named = HashSet::new();
    store.read(&mut |state| {
        let faulty = state.all().filter(|object| object.fault.is_some());
        named = faulty.map(|object| format!("{}/{}", object.kind.directory(), object.id)).collect();
    });
    for Lost { object, reason } in lost.iter().filter(|lost| !named.contains(&lost.object)) {
        trial.problems.fetch_add(1, Ordering::Relaxed);
        let text = format_args!("{object} is in use, and could not be with this config.yaml: {reason}");
        error_log::log(error_log::Level::Error, text);
    }
}
