//! `tidegate test`: everything a start does, up to the first request.

use std::{net::SocketAddr, sync::atomic::Ordering, time::Duration};

use anyhow::{Context, anyhow};
use tidegate_config::{Provider, Settings, settings::Level};

use super::{
    commands::fresh_copy,
    etcd,
    folders::writable,
    logs, pid_file,
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
    let sockets =
        Sockets::trial(trial.running.map(tidegate_proxy::port_owner::addresses_of).unwrap_or_default());
    let prepared = prepare(&settings, &sockets, &Purpose::Trial(&trial), &[]).map(|prepared| {
        let Prepared { runtime, provider, compiler, .. } = prepared;
        drop(compiler);
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
