//! Starting the gateway: from settings to listening workers, and the end of it.
//!
//! Order matters: what can fail from the configuration fails before a port is open; ports open when the first snapshot
//! is complete, so that no request meets an empty configuration; all are open before one accepts, since a process before
//! this one may have to continue in its place; readiness is announced last.

mod access_log;
mod addresses;
mod admin_tls;
mod administration;
mod body_memory;
mod bounds;
mod catalogs;
pub(crate) mod commands;
mod compiler_options;
mod control;
mod data_plane;
mod debug_file;
mod encryption;
mod ending;
mod etcd;
mod expiry;
mod explain;
mod extra_labels;
mod fallback_name;
mod file_check;
mod folders;
pub(crate) mod handover;
mod health;
mod hooks;
mod idle_fields;
mod kept_places;
mod languages;
mod logs;
mod lost_config;
mod lost_keys;
mod memory;
mod metrics;
mod name_failures;
mod names;
mod nodes;
pub(crate) mod notices;
pub(crate) mod notify;
mod ocsp;
mod open_sessions;
mod pem;
pub(crate) mod pid_file;
pub(crate) mod plugin_files;
pub(crate) mod preflight;
mod prepare;
pub(super) mod process;
mod provider;
mod purpose;
mod reload;
mod renewal;
mod runner;
mod secrets;
mod server_info;
pub(crate) mod serving;
pub(crate) mod signals;
mod sockets;
mod stats;
mod status;
pub(crate) mod stay;
mod stream_log;
mod traffic;
pub(crate) mod trial;
pub(crate) mod welcome;

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::Context;
use serde_json::Value;
use tidegate_config::Settings;
use tidegate_model::PluginCatalog;
use tidegate_plugin_api::Catalog;
use tidegate_plugins::Runner;
use tidegate_telemetry::error_log;

pub(crate) use self::catalogs::catalog;
pub(crate) use self::languages::check_object;

use self::{
    control::Control,
    handover::predecessor::Predecessor,
    logs::Logs,
    pid_file::PidFile,
    prepare::Prepared,
    process::{install_host, start_plugins},
    provider::Provider,
    purpose::Purpose,
    serving::Origin,
};

/// Batches of log entries have that long to be sent when the process ends.
const FLUSH_TIME: Duration = Duration::from_secs(2);

/// The end of a process in which a worker is stuck takes no longer than that.
const ENDING_TIME: Duration = Duration::from_secs(10);

/// What `run` knows beyond the settings.
pub(crate) struct RunOptions {
    pub origin: Origin,
    /// config.yaml as in the file.
    pub config: Value,
    pub pid_file: PidFile,
    /// Do not end before a successor does. A successor itself need not stay: the first process finds the next one.
    pub stay: bool,
    /// What SIGHUP means.
    pub hangup: signals::Hangup,
    /// The process that this one takes over from.
    pub predecessor: Option<Predecessor>,
    /// Said on standard error in place of the welcome: standard output may carry the access log.
    pub says: Option<String>,
    /// What config.yaml gives reason to, ready to print.
    pub warnings: Vec<String>,
    /// Key files that this start has made.
    pub new_keys: Vec<PathBuf>,
}

/// Serves until a signal says stop, or a successor has taken over.
pub(crate) fn run(settings: Settings, mut options: RunOptions) -> anyhow::Result<()> {
    let signals = signals::Signals::install(options.hangup)?;
    options.warnings.extend(limit_descriptors(&settings));
    let sockets = take_over_sockets(&mut options);
    let purpose = Purpose::Serve(options.predecessor.as_ref());
    let Prepared {
        logs,
        runtime,
        catalog,
        metrics,
        provider,
        control,
        compiler: _compiler,
        apis,
        proxy: proxy_settings,
        listeners,
        without_tls,
        control_api,
        status,
    } = prepare::prepare(&settings, &sockets, &purpose, &options.warnings)?;
    let runner = runner::start(&settings, &catalog)?;
    let left = sockets.leave_rest();
    let objects = provider.count_objects();
    options.predecessor.as_ref().map_or(Ok(()), |predecessor| predecessor.prepared(left, objects))?;
    let workers = tidegate_proxy::start(&proxy_settings, listeners, &control.publisher);
    let workers = Arc::new(workers.context("cannot start workers")?);
    watch_workers(&workers, &signals)?;
    apis.hooks.set_workers(&workers);
    metrics.set_process(&workers, &control, &provider);
    let giving_back = memory::GivingBack::start()?;
    let taking = stats::Taking::start(&settings, &metrics, &workers, |stats| apis.hooks.set_stats(stats))?;
    watch_certificates(&settings, &runtime, &control);
    if let Some(socket) = status {
        status::serve(&settings, socket, &runtime, &sockets, &workers, &control, &provider);
    }
    announce_ready(&settings, &signals, &mut options, &control)?;
    sockets.serve();
    if options.predecessor.is_none() {
        welcome(&settings, &options, &workers, &provider, &catalog, (without_tls.as_deref(), control_api));
    }
    let mut serving = serving::Serving {
        signals: &signals,
        logs: &logs,
        workers: &workers,
        provider: &provider,
        control: &control,
        catalog: &catalog,
        sockets: &sockets,
        pid_file: &mut options.pid_file,
        origin: &options.origin,
        config: options.config,
        stay: options.stay,
        stage: serving::Stage::Alone,
        renewal: renewal::Renewal::new(options.predecessor.is_some()),
    };
    serving.run();
    let stays = options.stay && matches!(serving.stage, serving::Stage::HandedOver(_));
    if workers.lost_threads() > 0 {
        end_in_time(stays, &settings.files.pid);
    }
    drop((taking, giving_back));
    end(runner, &control, &provider, &logs);
    runtime.shutdown_timeout(Duration::from_millis(500));
    drop(options.pid_file);
    if stays {
        stay_on(&settings, &signals, workers.lost_threads() > 0);
    }
    Ok(())
}

/// With those of the process before this one, if there was one.
fn take_over_sockets(options: &mut RunOptions) -> sockets::Sockets {
    let inherited = options.predecessor.as_mut().map(|old| std::mem::take(&mut old.sockets));
    sockets::Sockets::new(inherited.unwrap_or_default())
}

/// The error log has said it, too; `start` repeats it.
fn print_rejected(control: &Control) {
    const SHOWN: usize = 5;
    let rejected = control.rejected.borrow().clone();
    if rejected.is_empty() {
        return;
    }
    let named = rejected.iter().take(SHOWN);
    let named: Vec<String> = named
        .map(|object| format!("{}/{} ({})", object.kind.directory(), object.id, object.reason))
        .collect();
    let more = if rejected.len() > SHOWN { ", …" } else { "" };
    let (objects, guarded) = match rejected.len() {
        1 => ("1 object".to_owned(), "what it guards"),
        count => (format!("{count} objects"), "what they guard"),
    };
    let except = notices::except(rejected.iter().map(|object| &*object.reason));
    notices::print_logged(&format!(
        "{objects} cannot be used, and {guarded} is denied{except}: {}{more}; `tidegate doctor` names all, with a remedy",
        named.join(", ")
    ));
}

fn watch_workers(workers: &tidegate_proxy::Workers, signals: &signals::Signals) -> anyhow::Result<()> {
    let events = signals.event_sender();
    workers.watch(move |count| events.send(signals::Event::Stuck(count))).context("cannot watch workers")
}

fn watch_certificates(settings: &Settings, runtime: &tokio::runtime::Runtime, control: &Arc<Control>) {
    expiry::watch(runtime, control);
    fallback_name::watch(settings, runtime, control);
    ocsp::watch(runtime, control);
}

/// The runner's plugins have no more requests; what it says is still logged.
fn end(runner: Option<Runner>, control: &Control, provider: &Provider, logs: &Logs) {
    drop(runner);
    flush_logs();
    control.stop();
    provider.close();
    logs.close();
}

fn flush_logs() {
    if !tidegate_plugin_api::stop::finish(FLUSH_TIME) {
        error_log::log(
            error_log::Level::Warn,
            format_args!("some log entries could not be sent before shutdown"),
        );
    }
}

/// What to say where the system allows fewer than config.yaml asks for.
fn limit_descriptors(settings: &Settings) -> Option<String> {
    const KEY: &str = "nginx_config.worker_rlimit_nofile";
    let wanted = settings.nginx.worker_rlimit_nofile;
    raise_descriptor_limit(wanted);
    let descriptors = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let descriptors = descriptors.unwrap_or(u64::MAX);
    tidegate_plugin_api::descriptors::set_limit(descriptors, settings.admin.limits.reserved_descriptors);
    let fewer = descriptors < wanted && settings.places.is_set(KEY);
    let text = format!(
        "{KEY}: the system allows {descriptors} open files, not {wanted}; raise LimitNOFILE of the systemd unit or ulimit -Hn, or \
         lower the key"
    );
    fewer.then(|| settings.places.message(KEY, &text))
}

/// The banner, or the one line of a command that says more itself; then the supervisor may know.
fn welcome(
    settings: &Settings,
    options: &RunOptions,
    workers: &tidegate_proxy::Workers,
    provider: &provider::Provider,
    catalog: &Catalog,
    (without_tls, control): (Option<&str>, Option<SocketAddr>),
) {
    let store = provider.store();
    match &options.says {
        Some(text) => crate::say::complain!("{text}"),
        None => welcome::print(&welcome::Doors {
            settings,
            listening: &workers.listening,
            without_tls,
            control,
            new_store: provider.new_store(),
            last_good: store.last_good(),
            has_mocking: catalog.is_enabled("mocking"),
            new_keys: &options.new_keys,
            routes: count(store.as_ref(), tidegate_model::Kind::Route),
            stream_routes: count(store.as_ref(), tidegate_model::Kind::StreamRoute),
        }),
    }
    notify::ready();
}

fn count(store: &dyn tidegate_store::Store, kind: tidegate_model::Kind) -> usize {
    let mut count = 0;
    store.read(&mut |state| count = state.list(kind).count());
    count
}

/// Remains as the process that a supervisor watches, after a successor has taken over.
fn stay_on(settings: &Settings, signals: &signals::Signals, has_lost_threads: bool) {
    if has_lost_threads {
        // What came until now is passed on; what comes later waits for the new image.
        while let Some(event) = signals.next(Some(Duration::ZERO)) {
            if let Ok(Some(pid)) = pid_file::running(&settings.files.pid) {
                stay::pass_on(pid, &event);
            }
        }
        stay::without_threads(&settings.files.pid);
    }
    stay::until_end(signals, &settings.files.pid, false);
}

/// What follows may need a lock that a stuck thread holds: then the process ends without it.
fn end_in_time(stays: bool, pid_file: &Path) {
    let pid_file = pid_file.to_owned();
    let end = move || {
        std::thread::sleep(ENDING_TIME);
        match stays {
            true => stay::without_threads(&pid_file),
            #[expect(clippy::exit, reason = "the main thread may never return")]
            false => std::process::exit(0),
        }
    };
    // Without a thread it ends by itself, most likely.
    let _ = std::thread::Builder::new().name("ending".to_owned()).spawn(end);
}

/// Writes the pid file, opens the command socket and signals the predecessor.
fn announce_ready(
    settings: &Settings,
    signals: &signals::Signals,
    options: &mut RunOptions,
    control: &Control,
) -> anyhow::Result<()> {
    if options.predecessor.is_none() {
        print_rejected(control);
    }
    options.pid_file.write().context("cannot write the pid file")?;
    let events = signals.event_sender();
    let send = move |command, reply| events.send(signals::Event::Command(command, reply));
    if let Err(error) = commands::listen(&commands::path(&settings.files.pid), send) {
        // Everything but the verbs upgrade and reload goes without.
        error_log::log(error_log::Level::Error, format_args!("{error:#}; signals still work"));
    }
    if let Some(predecessor) = &options.predecessor {
        predecessor.serving();
    }
    Ok(())
}

/// Answers `tidegate explain` from the configuration, without serving it. Problems go to stderr, no log is touched.
pub(crate) fn explain_offline(
    mut settings: Settings,
    question: &serde_json::Value,
) -> anyhow::Result<serde_json::Value> {
    trial::without_logs(&mut settings);
    let (reading, ports) = (self::addresses::reading(&settings)?, explain::Ports::of(&settings));
    let logs = logs::Logs::open(&settings)?;
    let runtime = control::runtime()?;
    let catalog = Arc::new(catalog(Some(&settings.plugins))?);
    let metrics = Arc::new(metrics::Metrics::new(&settings));
    install_host(&settings, &runtime, &catalog, &metrics, &logs);
    plugin_files::add(&settings, &catalog, false)?;
    start_plugins(&settings, &catalog)?;
    // It only reads: what is not there yet is empty, and is not made.
    let trial = purpose::Trial::default();
    let explained =
        provider::open(&settings, &catalog, &runtime, &Purpose::Trial(&trial)).and_then(|provider| {
            let (snapshot, trial) = control::compile_once(&settings, &runtime, &catalog, &provider)?;
            let store = provider.store();
            let get = |kind, id: &str| store.get(kind, id).map(|object| object.value());
            let disabled =
                || explain::disabled(&trial, snapshot.router.mode(), &tidegate_store::Stored(store.as_ref()));
            let objects =
                explain::Objects { get: &get, disabled: &disabled, catalog: catalog.as_ref(), ports };
            // Plugins may make timers before they would wait.
            let _entered = runtime.enter();
            let explained = explain::answer(&snapshot, &reading, &objects, question);
            provider.close();
            explained.map_err(anyhow::Error::msg)
        });
    logs.close();
    runtime.shutdown_timeout(Duration::from_millis(100));
    etcd::remove_trial_snapshot(&settings);
    explained
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
