//! Where the resources come from, as `deployment` says.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use anyhow::{Context, bail};
use serde_json::{Value, json};
use tidegate_config::Settings;
use tidegate_model::{Kind, nearest};
use tidegate_plugin_api::Catalog;
use tidegate_store::{
    ApiDriven, Embedded, Etcd, FAULTS_OF_ITEMS, File, LastGood, Store, StoreError,
    embedded::{Hooks, Opened},
    history::Retention,
};
use tidegate_telemetry::error_log;

use super::{
    encryption::encryption,
    file_check::check,
    folders::writable_folder,
    notices,
    purpose::{Purpose, Trial},
};

pub(crate) enum Provider {
    Embedded(Arc<Embedded>),
    /// In its place, while the store is damaged.
    LastGood(Arc<LastGood>),
    Etcd(Arc<Etcd>),
    File(Arc<File>),
    ApiDriven(Arc<ApiDriven>),
}

impl Provider {
    pub(super) fn count_objects(&self) -> usize {
        let mut objects = 0;
        self.store().read(&mut |state| objects = state.all().count());
        objects
    }

    pub(crate) fn store(&self) -> Arc<dyn Store> {
        match self {
            Provider::Embedded(store) => store.clone(),
            Provider::LastGood(store) => store.clone(),
            Provider::Etcd(store) => store.clone(),
            Provider::File(store) => store.clone(),
            Provider::ApiDriven(store) => store.clone(),
        }
    }

    /// The prefix of object keys in API responses. Empty without a database, as in APISIX.
    pub(crate) fn key_prefix(&self, configured: &str) -> String {
        match self {
            Provider::Embedded(_) | Provider::LastGood(_) | Provider::Etcd(_) => configured.to_owned(),
            Provider::File(_) | Provider::ApiDriven(_) => String::new(),
        }
    }

    /// The store's file, where this start has made it.
    pub(crate) fn new_store(&self) -> Option<&Path> {
        match self {
            Provider::Embedded(store) if store.is_new() => Some(store.path()),
            _ => None,
        }
    }

    pub(crate) fn api_driven(&self) -> Option<&Arc<ApiDriven>> {
        match self {
            Provider::ApiDriven(store) => Some(store),
            _ => None,
        }
    }

    pub(crate) fn etcd(&self) -> Option<&Arc<Etcd>> {
        match self {
            Provider::Etcd(store) => Some(store),
            _ => None,
        }
    }

    /// Reads files now instead of at the next poll. Returns why one could not be taken.
    pub(crate) fn read_if_changed(&self) -> Option<String> {
        match self {
            Provider::File(file) => file.read_if_changed(),
            _ => None,
        }
    }

    /// Keys of a file that are in no use, each with its place.
    pub(crate) fn ignored(&self) -> Vec<String> {
        match self {
            Provider::File(file) => file.ignored(),
            _ => Vec::new(),
        }
    }

    /// The plugin list of apisix.yaml or of etcd, which beats config.yaml's.
    pub(crate) fn plugins(&self) -> Option<Vec<String>> {
        match self {
            Provider::File(file) => file.plugins().map(|list| list.http),
            Provider::Etcd(store) => store.plugins().map(|list| list.http),
            _ => None,
        }
    }

    /// Lets a successor have what only one process can have; what it must be given, if anything. Writes are refused
    /// from now on.
    pub(crate) fn release(&self) -> Result<Option<Value>, StoreError> {
        match self {
            Provider::Embedded(store) => store.release().map(|()| None),
            Provider::ApiDriven(store) => Ok(store.release().map(|document| {
                json!({
                    "body": document.body,
                    "digest": document.digest,
                    "last_modified": document.last_modified,
                })
            })),
            Provider::Etcd(_) | Provider::File(_) | Provider::LastGood(_) => Ok(None),
        }
    }

    /// Takes the store back: no successor takes over after all.
    pub(crate) fn resume(&self) -> Result<(), StoreError> {
        match self {
            Provider::Embedded(store) => store.resume(),
            Provider::ApiDriven(store) => {
                store.resume();
                Ok(())
            }
            Provider::Etcd(_) | Provider::File(_) | Provider::LastGood(_) => Ok(()),
        }
    }

    /// Ends what a provider still has to do before the process does.
    pub(crate) fn close(&self) {
        match self {
            Provider::Etcd(store) => store.close(),
            Provider::Embedded(store) => store.close(),
            Provider::LastGood(_) | Provider::File(_) | Provider::ApiDriven(_) => {}
        }
    }

    /// A file that holds everything that has been acknowledged until now. The error says what to do instead.
    pub(crate) fn backup(&self) -> Result<PathBuf, String> {
        match self {
            Provider::Embedded(store) => store.copy_now().map(|_| store.copy_place()),
            Provider::LastGood(store) => Ok(store.path().to_owned()),
            Provider::Etcd(_) => Err("the configuration is in etcd; use `etcdctl snapshot save`".to_owned()),
            Provider::File(_) => Err("the configuration is a file of yours; copy that file".to_owned()),
            Provider::ApiDriven(_) => {
                Err("the configuration is what was sent last; GET /apisix/admin/configs answers it"
                    .to_owned())
            }
        }
    }

    /// The same in memory, where that file cannot be written.
    pub(crate) fn whole_backup(&self) -> Result<Vec<u8>, String> {
        match self {
            Provider::Embedded(store) => store.whole_copy(),
            other => other.backup().and_then(|path| fs::read(path).map_err(|error| error.to_string())),
        }
    }

    /// The objects in use that `hooks` cannot decrypt as they lie in the store. Where they do not lie in a store of the gateway's own, none.
    pub(crate) fn undecryptable(&self, hooks: &Hooks) -> Result<Vec<(Kind, String, String)>, StoreError> {
        match self {
            Provider::Embedded(store) => store.undecryptable(hooks),
            _ => Ok(Vec::new()),
        }
    }
}

pub(super) fn open(
    settings: &Settings,
    catalog: &Arc<Catalog>,
    runtime: &tokio::runtime::Runtime,
    purpose: &Purpose,
) -> anyhow::Result<Arc<Provider>> {
    let document = match (purpose, settings.provider) {
        (
            Purpose::Serve(Some(predecessor)),
            tidegate_config::Provider::Embedded | tidegate_config::Provider::ApiDriven,
        ) => predecessor.take_store()?,
        _ => None,
    };
    let trial = match purpose {
        Purpose::Trial(trial) => Some(*trial),
        Purpose::Serve(_) => None,
    };
    let provider = open_kind(settings, catalog, runtime, trial)?;
    if let (Provider::ApiDriven(store), Some(document)) = (&provider, document) {
        take_document(store, &document).context("the configuration of the process before this one")?;
    }
    Ok(Arc::new(provider))
}

fn take_document(store: &ApiDriven, document: &Value) -> anyhow::Result<()> {
    let body = document.get("body").and_then(Value::as_object).context("has no body")?;
    let digest = document.get("digest").and_then(Value::as_str).unwrap_or_default();
    let modified = document.get("last_modified").and_then(Value::as_u64).unwrap_or_default();
    store.replace(body, digest, modified).map(|_| ()).map_err(anyhow::Error::msg)
}

fn open_kind(
    settings: &Settings,
    catalog: &Arc<Catalog>,
    runtime: &tokio::runtime::Runtime,
    trial: Option<&Trial>,
) -> anyhow::Result<Provider> {
    let report = || -> tidegate_store::file::Report {
        let problems = trial.map(|trial| trial.problems.clone());
        Box::new(move |text: &str| {
            if let Some(problems) = &problems {
                problems.fetch_add(1, Ordering::Relaxed);
                // The compiler names the object, and says the same.
                if FAULTS_OF_ITEMS.iter().any(|start| text.contains(&format!(": {start}"))) {
                    return;
                }
            }
            error_log::log(error_log::Level::Error, format_args!("{text}"));
        })
    };
    match settings.provider {
        tidegate_config::Provider::Embedded => open_embedded(settings, catalog, trial, report()),
        tidegate_config::Provider::Yaml | tidegate_config::Provider::Json => {
            let yaml = settings.provider == tidegate_config::Provider::Yaml;
            let path = if yaml { &settings.files.resources_yaml } else { &settings.files.resources_json };
            let options = tidegate_store::file::Options {
                format: if yaml {
                    tidegate_store::file::Format::Yaml
                } else {
                    tidegate_store::file::Format::Json
                },
                check: check(catalog),
                choose_plugins: Some(choose_plugins(settings, catalog)),
                report: report(),
                interval: Duration::from_secs(1),
            };
            Ok(Provider::File(Arc::new(File::open(path, options)?)))
        }
        tidegate_config::Provider::ApiDriven => {
            Ok(Provider::ApiDriven(Arc::new(ApiDriven::new(check(catalog), report()))))
        }
        tidegate_config::Provider::Etcd => {
            let mut options = super::etcd::options(settings, catalog);
            if trial.is_some() {
                options = super::etcd::without_writing(options)?;
            }
            let store = Etcd::open(options, runtime.handle()).map_err(|error| {
                anyhow::anyhow!("{}", settings.places.message("deployment.etcd.host", &error.to_string()))
            })?;
            Ok(Provider::Etcd(Arc::new(store)))
        }
    }
}

fn open_embedded(
    settings: &Settings,
    catalog: &Arc<Catalog>,
    trial: Option<&Trial>,
    report: tidegate_store::file::Report,
) -> anyhow::Result<Provider> {
    let path = &settings.files.database;
    if settings.role == tidegate_config::Role::DataPlane && !path.exists() {
        bail!(
            "database {} is missing, and role data_plane does not write to it; restore it from a backup, or \
             correct deployment.role_data_plane.config_provider",
            path.display()
        );
    }
    if let Some(folder) = path.parent() {
        let writes = settings.role != tidegate_config::Role::DataPlane;
        let usable = if writes { writable_folder(folder) } else { Ok(()) };
        usable.context("there is no place for the store; check permissions, or give another --prefix")?;
    }
    // A trial makes no store.
    if let Some(trial) = trial
        && (trial.running.is_some() || matches!(Embedded::would_be_new(path), Ok(true)))
    {
        return Ok(match trial.running {
            Some(_) => beside(settings, catalog, report),
            None => Provider::ApiDriven(Arc::new(ApiDriven::new(check(catalog), report))),
        });
    }
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    match open_store(settings, catalog)? {
        Opened::LastGood(store) => {
            notices::alarm(&store.warning());
            Ok(Provider::LastGood(Arc::new(store)))
        }
        Opened::Store(store) => {
            if trial.is_none() {
                store.keep_copy()?;
            }
            store.warnings().iter().for_each(|warning| notices::warn(warning));
            if store.is_new() {
                // On the terminal the banner says it.
                error_log::log(
                    error_log::Level::Warn,
                    format_args!(
                        "a new, empty store was created at {}; if this gateway has been in use, its data folder is \
                         missing: restore it",
                        path.display()
                    ),
                );
            }
            Ok(Provider::Embedded(Arc::new(store)))
        }
    }
}

/// For a trial, where a gateway has the store open: its last good copy, which is seconds behind at most. There may be none yet.
fn beside(settings: &Settings, catalog: &Arc<Catalog>, report: tidegate_store::file::Report) -> Provider {
    const OPEN: &str = "a gateway has the store open";
    let copy = LastGood::open(&settings.files.database, encryption(settings, catalog), OPEN, true);
    copy.map_or_else(
        |_| Provider::ApiDriven(Arc::new(ApiDriven::new(check(catalog), report))),
        |store| Provider::LastGood(Arc::new(store)),
    )
}

fn open_store(settings: &Settings, catalog: &Arc<Catalog>) -> anyhow::Result<Opened> {
    let history = &settings.history;
    let retention = Retention {
        max_entries: history.max_entries,
        max_age: history.max_age,
        max_bytes: history.max_bytes,
    };
    let hooks = || encryption(settings, catalog);
    Ok(Embedded::open_or_last_good(&settings.files.database, hooks, retention, settings.serve_last_good)?)
}

/// The file's plugin list counts for the objects beside it; without one config.yaml's does.
fn choose_plugins(settings: &Settings, catalog: &Arc<Catalog>) -> tidegate_store::file::ChoosePlugins {
    let (configured, catalog) = (settings.plugins.clone(), catalog.clone());
    let yaml = settings.provider == tidegate_config::Provider::Yaml;
    let file = if yaml { &settings.files.resources_yaml } else { &settings.files.resources_json };
    let file = file.display().to_string();
    Box::new(move |list| {
        for name in list.iter().flat_map(|list| &list.http).filter(|name| catalog.def(name).is_none()) {
            let hint = nearest::hint(name, catalog.defs().map(|def| def.name));
            error_log::log(
                error_log::Level::Warn,
                format_args!(
                    "{file}: plugins: unknown plugin {name}{hint}; objects that use it are rejected"
                ),
            );
        }
        catalog.enable(Some(list.map_or(&configured, |list| &list.http)));
    })
}
