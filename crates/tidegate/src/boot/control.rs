//! The control side: follows the store, compiles, publishes. At lower priority than the workers.

use std::{
    mem,
    sync::{Arc, Mutex, PoisonError},
    thread,
    time::Duration,
};

use anyhow::Context;
use tidegate_compiler::{Compiler, Trial};
use tidegate_config::Settings;
use tidegate_model::{Object, Rejected, catalog::PluginCatalog, resources::DiscoveredService};
use tidegate_plugin_api::{Catalog, Snapshot};
use tidegate_proxy::Publisher;
use tidegate_store::{Changes, Store};
use tidegate_telemetry::background::{begin_turn, give_way, lower_priority};
use tokio::{runtime::Runtime, sync::watch};

use super::{
    catalogs::stream_catalog,
    compiler_options,
    health::Health,
    idle_fields::{self, FieldLog, IdleFields, MANY_OBJECTS},
    kept_places::KeptPlaces,
    names::Names,
    nodes::Nodes,
    provider::Provider,
    secrets::Secrets,
};

/// How long a change may wait for the addresses of names that are new.
const NAME_PATIENCE: Duration = Duration::from_millis(500);

/// How long a change may wait for secrets that are new.
const SECRET_PATIENCE: Duration = Duration::from_millis(500);

/// The same for the first snapshot: better to start late than without keys and passwords.
const FIRST_SECRET_PATIENCE: Duration = Duration::from_secs(5);

/// How long a change may wait for the nodes of services that are new.
const NODE_PATIENCE: Duration = Duration::from_millis(500);

/// The same for the first snapshot: better to start late than to answer 503.
const FIRST_NODE_PATIENCE: Duration = Duration::from_secs(3);

/// The runtime of everything that is not a request.
pub(super) fn runtime() -> anyhow::Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("control")
        .on_thread_start(lower_priority)
        .on_thread_unpark(begin_turn)
        .enable_all()
        .build()
        .context("cannot start the control runtime")
}

/// What others ask about the configuration in effect.
pub(super) struct Control {
    pub publisher: Arc<Publisher>,
    pub published: watch::Receiver<u64>,
    pub health: Arc<Health>,
    pub nodes: Arc<Nodes>,
    /// The objects that the newest snapshot could not use.
    pub rejected: watch::Receiver<Arc<[Rejected]>>,
    /// What is to be known of objects that can be used.
    pub warnings: watch::Receiver<Arc<[Rejected]>>,
    /// Builds what is not written yet.
    pub trial: Trial,
    stop: watch::Sender<bool>,
    compiler: Mutex<Option<thread::JoinHandle<()>>>,
}

impl Control {
    /// Ends the compiler before the runtime it waits on.
    pub(super) fn stop(&self) {
        let _ = self.stop.send(true);
        let compiler = self.compiler.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(compiler) = compiler {
            let _ = compiler.join();
        }
    }
}

/// Compiles the current state once, without serving it.
pub(super) fn compile_once(
    settings: &Settings,
    runtime: &Runtime,
    catalog: &Arc<Catalog>,
    provider: &Arc<Provider>,
) -> anyhow::Result<(Arc<Snapshot>, Trial)> {
    let mut follower = follower(settings, runtime, catalog, provider)?;
    let trial = trial(settings, catalog, follower.secrets.clone())?;
    let snapshot = follower.compiler.snapshot(follower.revision);
    idle_fields::log(&mem::take(&mut follower.unjudged), &follower.idle, &snapshot, || false);
    Ok((snapshot, trial))
}

/// A compiler for questions, with the settings of the one that serves.
fn trial(settings: &Settings, catalog: &Arc<Catalog>, secrets: Arc<Secrets>) -> anyhow::Result<Trial> {
    let options = compiler_options::of(settings, stream_catalog(settings)?);
    Ok(Trial::new(options, catalog.clone(), secrets, tidegate_plugins::lua_compiler()))
}

/// Compiles the first snapshot, then keeps following on a separate thread. `says_all_first`: of fields without effect, too, for those who
/// end with what was said.
pub(super) fn start(
    settings: &Settings,
    runtime: &Runtime,
    catalog: &Arc<Catalog>,
    provider: &Arc<Provider>,
    says_all_first: bool,
) -> anyhow::Result<Arc<Control>> {
    let mut follower = follower(settings, runtime, catalog, provider)?;
    let snapshot = follower.compiler.snapshot(follower.revision);
    if says_all_first {
        idle_fields::log(&mem::take(&mut follower.unjudged), &follower.idle, &snapshot, || false);
    }
    // Reading and compiling everything left as much behind as it made.
    super::memory::release_memory();
    let publisher = Arc::new(Publisher::new(snapshot));
    let (sender, published) = watch::channel(follower.revision);
    follower.share();
    let (health, nodes) = (follower.health.clone(), follower.nodes.clone());
    let rejected = follower.rejected.subscribe();
    let warnings = follower.warnings.subscribe();
    let secrets = follower.secrets.clone();
    let trial = trial(settings, catalog, secrets)?;
    let (stop, stopped) = watch::channel(false);
    let handle = runtime.handle().clone();
    let to_publish = publisher.clone();
    let field_log = FieldLog::start(follower.idle.clone())?;
    let compiler = thread::Builder::new()
        .name("compiler".to_owned())
        .spawn(move || {
            lower_priority();
            handle.block_on(follower.run(&to_publish, &sender, stopped, &field_log));
        })
        .context("cannot start the compiler thread")?;
    let compiler = Mutex::new(Some(compiler));
    Ok(Arc::new(Control { publisher, published, health, nodes, rejected, warnings, trial, stop, compiler }))
}

/// A follower that has compiled the first time.
fn follower(
    settings: &Settings,
    runtime: &Runtime,
    catalog: &Arc<Catalog>,
    provider: &Arc<Provider>,
) -> anyhow::Result<Follower> {
    let names = Names::start(settings, runtime);
    let nodes = Nodes::start(settings, runtime)?;
    let secrets = Secrets::start(settings, runtime.handle());
    let places = Arc::new(KeptPlaces::of(provider.store()));
    let mut compiler = Compiler::new(
        compiler_options::of(settings, stream_catalog(settings)?),
        catalog.clone(),
        names.clone(),
        nodes.clone(),
        secrets.clone(),
        tidegate_plugins::lua_compiler(),
    );
    let known = places.clone();
    compiler.log_with_places(Arc::new(move |kind, id, message| known.prefix(kind, id, message)));
    if provider.store().revisions_last() {
        compiler.rely_on_revisions();
    }
    let health = Arc::new(Health::new(runtime.handle(), settings)?);
    let mut follower = Follower {
        compiler,
        store: provider.store(),
        provider: provider.clone(),
        catalog: catalog.clone(),
        configured_plugins: settings.plugins.clone(),
        active_plugins: None,
        idle: Arc::new(IdleFields {
            matching: compiler_options::matching(settings),
            catalog: catalog.clone(),
            store: provider.store(),
            places: places.clone(),
        }),
        names,
        nodes,
        secrets,
        revision: 0,
        places,
        unjudged: Vec::new(),
        health,
        rejected: watch::Sender::new(Arc::new([])),
        warnings: watch::Sender::new(Arc::new([])),
    };
    runtime.block_on(async {
        follower.follow(true).await;
        follower.discover_nodes(FIRST_NODE_PATIENCE).await;
        follower.resolve_names().await;
    });
    Ok(follower)
}

struct Follower {
    compiler: Compiler,
    store: Arc<dyn Store>,
    provider: Arc<Provider>,
    catalog: Arc<Catalog>,
    configured_plugins: Vec<String>,
    /// The plugin list of apisix.yaml in effect.
    active_plugins: Option<Vec<String>>,
    idle: Arc<IdleFields>,
    names: Arc<Names>,
    nodes: Arc<Nodes>,
    secrets: Arc<Secrets>,
    revision: u64,
    places: Arc<KeptPlaces>,
    /// Objects whose idle fields are not logged yet: they are served first.
    unjudged: Vec<Object>,
    health: Arc<Health>,
    rejected: watch::Sender<Arc<[Rejected]>>,
    warnings: watch::Sender<Arc<[Rejected]>>,
}

impl Follower {
    async fn run(
        mut self,
        publisher: &Publisher,
        published: &watch::Sender<u64>,
        mut stopped: watch::Receiver<bool>,
        field_log: &FieldLog,
    ) {
        let mut watch = self.store.watch();
        let mut names = self.names.changes();
        let mut nodes = self.nodes.changes();
        let mut secrets = self.secrets.changes();
        // Changes between the first snapshot and this point have notified no one: the Admin API may be open already.
        watch.mark_changed();
        names.mark_changed();
        nodes.mark_changed();
        secrets.mark_changed();
        field_log.look_at(mem::take(&mut self.unjudged).into_iter(), publisher.current());
        let mut second = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                _ = stopped.changed() => return,
                changed = watch.changed() => {
                    let Ok(()) = changed else { return };
                    watch.borrow_and_update();
                    self.follow(false).await;
                    self.discover_nodes(NODE_PATIENCE).await;
                    self.resolve_names().await;
                }
                changed = names.changed() => {
                    let Ok(()) = changed else { return };
                    names.borrow_and_update();
                    self.take_addresses();
                }
                changed = nodes.changed() => {
                    let Ok(()) = changed else { return };
                    nodes.borrow_and_update();
                    if !self.take_nodes() {
                        continue;
                    }
                    // Registries may name hosts instead of addresses.
                    self.resolve_names().await;
                }
                changed = secrets.changed() => {
                    let Ok(()) = changed else { return };
                    secrets.borrow_and_update();
                    let changed = self.secrets.take_changed();
                    if changed.is_empty() {
                        continue;
                    }
                    self.compiler.secrets_changed(&changed);
                    self.discover_nodes(NODE_PATIENCE).await;
                    self.resolve_names().await;
                }
                _ = second.tick() => {
                    publisher.collect();
                    continue;
                }
            }
            give_way();
            let snapshot = self.compiler.snapshot(self.revision);
            give_way();
            // Before a place is shut, its reason can be read.
            self.share();
            give_way();
            publisher.publish(snapshot);
            field_log.look_at(mem::take(&mut self.unjudged).into_iter(), publisher.current());
            let _ = published.send(self.revision);
        }
    }

    /// Takes over what the store changed since the last time.
    async fn follow(&mut self, first: bool) {
        begin_turn();
        let plugins = self.provider.plugins();
        let list_changed = plugins != self.active_plugins;
        if list_changed {
            self.catalog.enable(Some(plugins.as_deref().unwrap_or(&self.configured_plugins)));
            self.active_plugins = plugins;
        }
        let changes = if first { Changes::Reset } else { self.store.changes_since(self.revision) };
        match changes {
            Changes::Delta { revision, changes } if !list_changed => {
                let many = changes.len() > MANY_OBJECTS;
                self.unjudged.extend(changes.iter().filter_map(|change| change.object.clone()));
                for change in &changes {
                    self.secrets.object_changed(&(change.kind, change.id.clone()), change.object.as_ref());
                }
                self.secrets.fetch_missing(SECRET_PATIENCE).await;
                self.compiler
                    .apply(changes.into_iter().map(|change| ((change.kind, change.id), change.object)));
                self.revision = revision;
                if many {
                    super::memory::release_memory();
                }
            }
            _ => {
                let mut objects = Vec::new();
                self.store.read(&mut |state| {
                    self.revision = state.revision;
                    objects = state.all().cloned().collect();
                });
                self.unjudged.clone_from(&objects);
                self.secrets.reset(objects.iter());
                self.secrets.fetch_missing(if first { FIRST_SECRET_PATIENCE } else { SECRET_PATIENCE }).await;
                if first {
                    // Everything is about to be built with what is known now.
                    self.secrets.take_changed();
                }
                if list_changed {
                    self.compiler.forget_plugins();
                }
                self.compiler.reset(objects.into_iter());
            }
        }
    }

    /// New names should be usable when their route is; a resolver that does not answer must not hold up the rest.
    async fn resolve_names(&mut self) {
        let users = self.compiler.names().map(|name| (name.clone(), self.compiler.users_of(name)));
        let users = users.collect();
        self.names.want(users, NAME_PATIENCE).await;
        self.take_addresses();
    }

    fn take_addresses(&mut self) {
        let names: Vec<Arc<str>> = self.compiler.names().cloned().collect();
        let changed = self.names.take_changed(&names);
        self.compiler.addresses_changed(changed.iter().map(AsRef::as_ref));
    }

    /// New services should have their nodes when their route is there, within reason.
    async fn discover_nodes(&mut self, patience: Duration) {
        let services: Vec<DiscoveredService> = self.compiler.services().cloned().collect();
        self.nodes.want(&services, patience).await;
        self.take_nodes();
    }

    /// Whether there was anything to take.
    fn take_nodes(&mut self) -> bool {
        let services: Vec<DiscoveredService> = self.compiler.services().cloned().collect();
        let changed = self.nodes.take_changed(&services);
        self.compiler.nodes_changed(&changed);
        !changed.is_empty()
    }

    /// Shows the APIs, the probes and the plugins beside requests what there is now.
    fn share(&mut self) {
        for (name, follow) in self.catalog.defs().filter_map(|def| Some((def.name, def.follow_metadata?))) {
            let enabled = self.catalog.is_enabled(name);
            follow(self.compiler.metadata_of(name).filter(|_| enabled).as_ref());
        }
        let handles: Vec<_> = self.compiler.checked_upstreams().cloned().collect();
        self.health.follow(handles);
        self.places.forget();
        self.rejected.send_replace(self.compiler.rejected().into());
        self.warnings.send_replace(self.compiler.warnings().into());
    }
}
