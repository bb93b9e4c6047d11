//! What the Admin API asks of the running process.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use serde_json::Value;
use tidegate_admin::{AdminResponse, ControlApi, Hooks, Progress, StatsQuestion, TrafficQuestion};
use tidegate_plugin_api::Catalog;
use tidegate_proxy::{Workers, settings::Reading};
use tidegate_store::{BoxFuture, Store, Stored};
use tidegate_telemetry::{
    error_log::{self, Level},
    stats::Stats,
};
use tokio::sync::{Mutex, mpsc, watch};

use super::{commands, control::Control, explain, stats, traffic::Traffic};

/// Holds the answer to a write until requests meet what was written.
#[derive(Clone)]
pub(super) struct UntilCompiled {
    pub(super) published: watch::Receiver<u64>,
    /// Past that it is durable, follows, and is said to: in the answer (`said_if_behind` of the Admin API) and in the log.
    pub(super) at_most: Duration,
}

impl UntilCompiled {
    pub(super) async fn wait(mut self, revision: u64) {
        let compiled = self.published.wait_for(|published| *published >= revision);
        if tokio::time::timeout(self.at_most, compiled).await.is_err() {
            error_log::log(
                Level::Warn,
                format_args!(
                    "revision {revision} is stored and acknowledged, but not compiled after {} s \
                     (deployment.admin.limits.compile_timeout): requests do not use it yet; GET \
                     /apisix/admin/revision reports when they do",
                    self.at_most.as_secs()
                ),
            );
        }
    }
}

pub(super) struct ProcessHooks {
    control: Arc<Control>,
    compiled: UntilCompiled,
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    reading: Arc<Reading>,
    ports: explain::Ports,
    commands: PathBuf,
    control_api: Arc<ControlApi>,
    /// Empty until the data plane is open, which it is before the Admin API's own port is.
    workers: OnceLock<Arc<Workers>>,
    stats: OnceLock<Arc<Stats>>,
    traffic: Traffic,
    /// Answers from files are made one at a time.
    reads_files: Arc<Mutex<()>>,
}

impl ProcessHooks {
    pub(super) fn new(
        control: &Arc<Control>,
        compiled: UntilCompiled,
        store: Arc<dyn Store>,
        catalog: &Arc<Catalog>,
        (reading, ports): (Reading, explain::Ports),
        commands: PathBuf,
        control_api: Arc<ControlApi>,
    ) -> ProcessHooks {
        ProcessHooks {
            control: control.clone(),
            compiled,
            store,
            catalog: catalog.clone(),
            reading: Arc::new(reading),
            ports,
            commands,
            control_api,
            workers: OnceLock::new(),
            stats: OnceLock::new(),
            traffic: Traffic::default(),
            reads_files: Arc::default(),
        }
    }

    pub(super) fn set_workers(&self, workers: &Arc<Workers>) {
        let _ = self.workers.set(workers.clone());
    }

    pub(super) fn set_stats(&self, stats: Arc<Stats>) {
        let _ = self.stats.set(stats);
    }
}

impl Hooks for ProcessHooks {
    fn release_memory(&self) {
        super::memory::release_memory();
    }

    fn reload_plugins(&self) -> BoxFuture<'_, Result<(), String>> {
        commands::reload(&self.commands)
    }

    fn progress(&self) -> Progress {
        Progress {
            compiled: *self.control.published.borrow(),
            applied: self.workers.get().map(|workers| workers.revisions()).unwrap_or_default(),
        }
    }

    fn explain(&self, question: Value) -> BoxFuture<'_, Result<Value, String>> {
        let (store, catalog, reading) = (self.store.clone(), self.catalog.clone(), self.reading.clone());
        let (snapshot, ports) = (self.control.publisher.current(), self.ports);
        let control = self.control.clone();
        Box::pin(async move {
            // Conditions may be Lua functions, and there may be many routes: not on a thread that others wait for.
            let explained = tokio::task::spawn_blocking(move || {
                let get = |kind, id: &str| store.get(kind, id).map(|object| object.value());
                let mode = snapshot.router.mode();
                let disabled = || explain::disabled(&control.trial, mode, &Stored(store.as_ref()));
                let objects =
                    explain::Objects { get: &get, disabled: &disabled, catalog: catalog.as_ref(), ports };
                explain::answer(&snapshot, &reading, &objects, &question)
            });
            explained.await.unwrap_or_else(|_| Err("explain failed; see the error log".to_owned()))
        })
    }

    fn stats(&self, question: StatsQuestion) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async move {
            let stats = self.stats.get().cloned().ok_or("the gateway is starting")?;
            let control = self.control.clone();
            let turn = self.reads_files.clone().lock_owned().await;
            let answered = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                stats::answer(&stats, &control, &question)
            });
            answered.await.map_err(|_| "the figures could not be read; see the error log".to_owned())
        })
    }

    fn traffic(&self, question: TrafficQuestion) -> BoxFuture<'_, Result<mpsc::Receiver<Bytes>, String>> {
        let counted = self.store.revisions_last();
        Box::pin(async move { self.traffic.watch(question, counted) })
    }

    fn control<'a>(&'a self, path: &'a str) -> BoxFuture<'a, AdminResponse> {
        Box::pin(self.control_api.show(path))
    }

    fn wait_compiled(&self, revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(self.compiled.clone().wait(revision))
    }

    fn wait_applied(&self, revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            match self.workers.get() {
                Some(workers) => workers.wait_for_revision(revision).await,
                // There are no workers to apply it: the caller's time limit ends the wait.
                None => std::future::pending().await,
            }
        })
    }
}
