//! Starting the gateway: from settings to listening workers, and the end of it.
//!
//! Order matters: what can fail from the configuration fails before a port is open; ports open when the first snapshot
//! is complete, so that no request meets an empty configuration; readiness is told last.

mod access_log;
mod admin_tls;
mod administration;
mod control;
mod data_plane;
mod debug_file;
mod etcd;
mod expiry;
mod explain;
mod health;
mod hooks;
mod logs;
mod metrics;
mod names;
mod ocsp;
mod provider;
mod secrets;
mod signals;
mod status;
mod welcome;

use std::{sync::Arc, time::Duration};

use anyhow::Context;
use config::Settings;
use plugin::{Catalog, Host};
use telemetry::error_log;

pub use administration::check_object;

/// Batches of log entries have that long to be sent when the process ends.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// What `run` knows beyond the settings.
#[derive(Default)]
pub struct RunOptions {
    /// To be called once, when connections are accepted.
    pub on_ready: Option<Box<dyn FnOnce() + Send>>,
    /// No word on standard output: it carries the access log.
    pub quiet: bool,
}

/// Serves until a signal says stop.
pub fn run(settings: Settings, mut options: RunOptions) -> anyhow::Result<()> {
    let signals = signals::Signals::install()?;
    raise_descriptor_limit(settings.nginx.worker_rlimit_nofile);
    let logs = logs::Logs::open(&settings)?;
    let runtime = control::runtime()?;
    let catalog = Arc::new(
        Catalog::new(plugins::registry::PLUGINS, Some(&settings.plugins)).map_err(anyhow::Error::msg)?,
    );
    let metrics = Arc::new(metrics::Metrics::new(&settings));
    install_host(&settings, &runtime, &catalog, &metrics, &logs);
    start_plugins(&settings, &catalog)?;

    let provider = provider::open(&settings, &catalog, &runtime)?;
    let control = control::start(&settings, &runtime, &catalog, &provider)?;
    let _compiler = StopCompiler(control.clone());
    let apis = administration::Apis::new(&settings, &catalog, &provider, &control);
    let proxy_settings = data_plane::settings(&settings, &logs, &apis)?;
    let workers = proxy::start(&proxy_settings, &control.publisher).context("cannot open the data plane")?;
    let workers = Arc::new(workers);
    apis.hooks.set_workers(&workers);
    metrics.set_process(&workers, &control, &provider);
    expiry::watch(&runtime, &control);
    ocsp::watch(&runtime, &control);
    {
        let _entered = runtime.enter();
        apis.listen(&settings, &runtime)?;
        metrics.listen(&settings, &runtime)?;
        status::listen(&settings, &runtime, &workers, &control)?;
    }
    if !options.quiet {
        welcome::print(&settings, &workers.addresses);
    }
    if let Some(on_ready) = options.on_ready.take() {
        on_ready();
    }
    wait_for_end(&signals, &logs, &workers, &provider);
    if !plugin::stop::finish(FLUSH_TIME) {
        error_log::log(
            error_log::Level::Warn,
            format_args!("some log entries could not be sent before the end"),
        );
    }
    control.stop();
    provider.close();
    logs.close();
    runtime.shutdown_timeout(Duration::from_millis(500));
    Ok(())
}

/// Answers `tidegate explain` from the configuration, without serving it. Problems go to stderr, no log is touched.
pub fn explain_offline(
    mut settings: Settings,
    question: &serde_json::Value,
) -> anyhow::Result<serde_json::Value> {
    settings.nginx.error_log = "stderr".to_owned();
    settings.nginx.access_log.enable = false;
    let logs = logs::Logs::open(&settings)?;
    let runtime = control::runtime()?;
    let catalog = Arc::new(
        Catalog::new(plugins::registry::PLUGINS, Some(&settings.plugins)).map_err(anyhow::Error::msg)?,
    );
    let metrics = Arc::new(metrics::Metrics::new(&settings));
    install_host(&settings, &runtime, &catalog, &metrics, &logs);
    start_plugins(&settings, &catalog)?;
    let provider = provider::open(&settings, &catalog, &runtime)?;
    let snapshot = control::compile_once(&settings, &runtime, &catalog, &provider)?;
    let store = provider.store();
    let get = |kind, id: &str| store.get(kind, id).map(|object| object.value);
    let objects = explain::Objects { get: &get, catalog: catalog.as_ref() };
    let explained = explain::answer(&snapshot, &objects, question);
    provider.close();
    logs.close();
    runtime.shutdown_timeout(Duration::from_millis(100));
    explained.map_err(anyhow::Error::msg)
}

/// A start that fails ends the compiler, too, before the runtime that it waits on.
struct StopCompiler(Arc<control::Control>);

impl Drop for StopCompiler {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn install_host(
    settings: &Settings,
    runtime: &tokio::runtime::Runtime,
    catalog: &Arc<Catalog>,
    metrics: &Arc<metrics::Metrics>,
    logs: &logs::Logs,
) {
    let (text, counts) = (metrics.clone(), metrics.clone());
    Host {
        background: runtime.handle().clone(),
        catalog: catalog.clone(),
        metrics: metrics.registry.clone(),
        log_writer: logs.writer.clone(),
        metrics_text: Box::new(move || text.render()),
        connections: Box::new(move || counts.connections()),
        server_token: data_plane::server_token(settings),
        hostname: metrics::hostname(),
        plugin_attributes: settings.plugin_attr.clone(),
        settings: settings.raw.clone(),
        workers: settings.nginx.workers,
        prefix: settings.files.prefix.clone(),
        started: std::time::SystemTime::now(),
    }
    .install();
}

fn start_plugins(settings: &Settings, catalog: &Catalog) -> anyhow::Result<()> {
    for def in catalog.defs() {
        if let Some(start) = def.start {
            start(settings.plugin_attribute(def.name))
                .map_err(|reason| anyhow::anyhow!("plugin_attr.{}: {reason}", def.name))?;
        }
    }
    Ok(())
}

/// Reacts to signals until one ends the process.
fn wait_for_end(
    signals: &signals::Signals,
    logs: &logs::Logs,
    workers: &Arc<proxy::Workers>,
    provider: &provider::Provider,
) {
    let mut draining = false;
    loop {
        // A draining process ends by itself once the last connection is closed.
        let patience = if draining { Some(Duration::from_millis(20)) } else { None };
        match signals.next(patience) {
            Some(signals::Event::Reopen) => logs.reopen(),
            Some(signals::Event::Reload) => {
                logs.reopen();
                provider.look();
                error_log::log(error_log::Level::Notice, format_args!("resource files read again"));
            }
            Some(signals::Event::Quit) => {
                workers.drain();
                draining = true;
            }
            Some(signals::Event::Stop) => {
                workers.stop();
                draining = true;
            }
            None if workers.finished() => return,
            None => {}
        }
        if draining && workers.finished() {
            return;
        }
    }
}

/// Best effort: proxies need two descriptors per request.
fn raise_descriptor_limit(wanted: u64) {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let now = getrlimit(Resource::Nofile);
    let wanted = wanted.max(65_536);
    let maximum = now.maximum.map_or(wanted, |maximum| maximum.max(wanted));
    let raised = Rlimit { current: Some(maximum), maximum: Some(maximum) };
    if setrlimit(Resource::Nofile, raised).is_err() {
        let _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, maximum: now.maximum });
    }
}
