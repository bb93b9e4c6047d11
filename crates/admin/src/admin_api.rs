//! The Admin API: what it is made of, and what every part of it asks.

use std::{collections::HashMap, sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::Value;
use tidegate_model::{
    Kind, Object, PluginCatalog,
    check::{Context, Languages, References},
};
use tidegate_store::{BoxFuture, Store, StoreError, Write, Written};
use tokio::sync::mpsc;

use crate::{
    AdminSettings, Audit, Compiled, api::Values, documents::Documents, message::Response, sessions::Sessions,
};

pub(crate) const PREFIX: &str = "/apisix/admin";

/// Lists that clients have not taken yet may take so much before no further one is begun: three of 50,000 long routes.
const MOST_LISTED_BYTES: usize = 256 << 20;

/// Answers requests below `/apisix/admin`.
pub struct AdminApi {
    /// Access and version.
    pub settings: Arc<AdminSettings>,
    /// Where objects are read and written.
    pub store: Arc<dyn Store>,
    plugins: Arc<dyn PluginCatalog>,
    pub(super) stream_plugins: Option<Arc<dyn PluginCatalog>>,
    languages: Arc<dyn Languages>,
    pub(super) hooks: Arc<dyn Hooks>,
    pub(super) standalone: Option<Arc<dyn Standalone>>,
    pub(super) audit: Option<Arc<Audit>>,
    /// Tells when a revision is compiled.
    pub compiled: Arc<dyn Compiled>,
    pub(super) values: Values,
    /// Lists and exports that clients are taking.
    pub(super) documents: Arc<Documents>,
    pub(super) sessions: Sessions,
    /// Held by the write of one object that was overtaken by another one, while it is tried again.
    pub(crate) contested: tokio::sync::Mutex<()>,
}

/// What an [`AdminApi`] is made of.
pub struct Parts {
    /// Access and version.
    pub settings: AdminSettings,
    /// Where objects are read and written.
    pub store: Arc<dyn Store>,
    /// The HTTP plugins.
    pub plugins: Arc<dyn PluginCatalog>,
    /// The plugins of stream routes; `None`: stream mode is off.
    pub stream_plugins: Option<Arc<dyn PluginCatalog>>,
    /// Compiles Lua in objects.
    pub languages: Arc<dyn Languages>,
    /// What the API asks of the process.
    pub hooks: Arc<dyn Hooks>,
    /// Set when the whole configuration is driven through `/configs`; the resources are not offered then.
    pub standalone: Option<Arc<dyn Standalone>>,
    /// Records every attempt to change something.
    pub audit: Option<Arc<Audit>>,
    /// Tells when a revision is compiled.
    pub compiled: Arc<dyn Compiled>,
}

/// What the process does when asked through the Admin API.
pub trait Hooks: Send + Sync {
    /// `PUT /plugins/reload`; the error becomes the body of a 503.
    fn reload_plugins(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
    /// Gives memory back that a large body took.
    fn release_memory(&self) {}
    /// Where the compiler and the workers are.
    fn progress(&self) -> Progress {
        Progress::default()
    }
    /// What would become of the request that `question` describes; the error becomes the message of a 400.
    fn explain(&self, _question: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("explain is not available here".to_owned()) })
    }
    /// Figures over time; the error becomes the message of a 503.
    fn stats(&self, _question: StatsQuestion) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("this gateway keeps no figures".to_owned()) })
    }
    /// Requests as they end, as events; the error becomes the message of a 503.
    fn traffic(&self, _question: TrafficQuestion) -> BoxFuture<'_, Result<mpsc::Receiver<Bytes>, String>> {
        Box::pin(async { Err("the traffic is not shown here".to_owned()) })
    }
    /// What the Control API shows at this path.
    fn control<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Response> {
        Box::pin(async move { Response::error(503, &format!("{path} is not available here")) })
    }
    /// Resolves when the next request of every worker meets this revision or a newer one, or when the process gives up
    /// waiting. A write is answered then.
    fn wait_compiled(&self, _revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
    /// Resolves when every worker uses this revision or a newer one.
    fn wait_applied(&self, _revision: u64) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Hooks of a process that can do nothing, for tests and tools.
pub struct NoHooks;

impl Hooks for NoHooks {}

/// The configuration of the API-driven standalone mode, as one document.
pub trait Standalone: Send + Sync {
    /// What was put last: collections, `*_conf_version`, `X-Digest`, `X-Last-Modified`.
    fn current(&self) -> Option<Arc<Value>>;
    /// Replaces the whole configuration; the error is for the client.
    fn replace(&self, configuration: Value) -> BoxFuture<'_, Result<(), String>>;
}

impl AdminApi {
    /// Every write of the Admin API goes this way.
    pub(crate) fn write(&self, write: Write) -> BoxFuture<'_, Result<Written, StoreError>> {
        let written = self.store.write(write);
        Box::pin(async move {
            let written = written.await?;
            self.hooks.wait_compiled(written.revision).await;
            Ok(written)
        })
    }

    /// An API that no listener serves yet.
    pub fn new(parts: Parts) -> AdminApi {
        AdminApi {
            settings: Arc::new(parts.settings),
            store: parts.store,
            plugins: parts.plugins,
            stream_plugins: parts.stream_plugins,
            languages: parts.languages,
            hooks: parts.hooks,
            standalone: parts.standalone,
            audit: parts.audit,
            compiled: parts.compiled,
            values: Values::new(),
            documents: Documents::new("Admin API", MOST_LISTED_BYTES),
            sessions: Sessions::default(),
            contested: tokio::sync::Mutex::default(),
        }
    }

    /// Whether a path is this API's.
    pub fn owns(path: &str) -> bool {
        path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    pub(crate) fn plugins(&self) -> &Arc<dyn PluginCatalog> {
        &self.plugins
    }

    /// Calls `check` with what resources are checked against.
    pub(crate) fn with_references<T>(
        &self,
        references: &dyn References,
        skip_references: bool,
        check: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        check(&Context {
            plugins: self.plugins.as_ref(),
            stream_plugins: self.stream_plugins.as_deref(),
            languages: self.languages.as_ref(),
            references,
            skip_references,
            protocols: &self.settings.protocols,
        })
    }
}

/// The stored resources.
pub(crate) struct StoreReferences<'a>(pub(crate) &'a dyn Store);

impl References for StoreReferences<'_> {
    fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>> {
        self.0.get(kind, id).map(|object| object.value())
    }

    fn each(&self, kind: Kind, visit: &mut dyn FnMut(&str, &Value)) {
        self.0.read(&mut |state| state.list(kind).for_each(|object| visit(&object.id, &object.value())));
    }
}

/// What `GET /stats` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatsQuestion {
    /// The last so many seconds.
    pub range_s: u64,
    /// Routes and consumers that are named.
    pub top: usize,
    /// Whether names of consumers are shown.
    pub consumers: bool,
    /// The routes that are named, each from a time on, in seconds since 1970; `None`: all.
    pub routes: Option<HashMap<String, u64>>,
}

/// What `GET /traffic` asks for.
#[derive(Clone, Debug, PartialEq)]
pub struct TrafficQuestion {
    /// Only of this route.
    pub route: Option<String>,
    /// Only while its id has been this object's.
    pub object: Option<Object>,
    /// Only of this consumer.
    pub consumer: Option<String>,
    /// Only with a status from the first to the last.
    pub status: Option<(u16, u16)>,
    /// Only those that took at least as long.
    pub least: Duration,
    /// Whether names of consumers are shown.
    pub consumers: bool,
    /// The end of the stream, unless it ends sooner.
    pub longest: Duration,
}

/// Where the workers are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The newest revision that has been compiled.
    pub compiled: u64,
    /// What each worker uses.
    pub applied: Vec<u64>,
}
