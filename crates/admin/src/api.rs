//! The Admin API: which part answers. Who may ask is in [`entrance`].

pub(crate) mod configurations;
mod entrance;
mod json;
pub(crate) mod plugins;
pub(crate) mod revisions;
mod schemas;
mod standalone;

use std::sync::{Arc, PoisonError, RwLock};

pub use self::{entrance::Entered, revisions::Progress};
use serde_json::{Value, json};
use tidegate_model::{
    Kind, PluginCatalog,
    check::{Context, Languages, References},
};
use tidegate_store::{BoxFuture, Store, StoreError, Write, Written};

use crate::{
    AdminSettings, ApiVersion, Audit, Compiled,
    message::{Request, RequestBody, Response, arguments},
    resource::{self, Target},
};

/// Bodies above this are refused, except whole configurations.
pub const BODY_LIMIT: u64 = 1_572_864;
const CONFIGURATION_LIMIT: u64 = 512 * 1024 * 1024;
pub(crate) const IMPORT_LIMIT: u64 = 128 * 1024 * 1024;

const PREFIX: &str = "/apisix/admin";

/// Answers requests below `/apisix/admin`.
pub struct AdminApi {
    pub(crate) settings: AdminSettings,
    pub(crate) store: Arc<dyn Store>,
    plugins: RwLock<Arc<dyn PluginCatalog>>,
    stream_plugins: Option<Arc<dyn PluginCatalog>>,
    languages: Arc<dyn Languages>,
    hooks: Arc<dyn Hooks>,
    standalone: Option<Arc<dyn Standalone>>,
    audit: Option<Arc<Audit>>,
    pub(crate) compiled: Arc<dyn Compiled>,
}

/// What an [`AdminApi`] is made of.
pub struct Parts {
    pub settings: AdminSettings,
    pub store: Arc<dyn Store>,
    pub plugins: Arc<dyn PluginCatalog>,
    pub stream_plugins: Option<Arc<dyn PluginCatalog>>,
    pub languages: Arc<dyn Languages>,
    pub hooks: Arc<dyn Hooks>,
    /// Set when the whole configuration is driven through `/configs`; the resources are not offered then.
    pub standalone: Option<Arc<dyn Standalone>>,
    /// Where every attempt to change something is told.
    pub audit: Option<Arc<Audit>>,
    pub compiled: Arc<dyn Compiled>,
}

/// What the process does when asked through the Admin API.
pub trait Hooks: Send + Sync {
    /// `PUT /plugins/reload`; the error becomes the body of a 503.
    fn reload_plugins(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
    /// Where the compiler and the workers are.
    fn progress(&self) -> Progress {
        Progress::default()
    }
    /// What would become of the request that `question` describes; the error becomes the message of a 400.
    fn explain(&self, _question: Value) -> BoxFuture<'_, Result<Value, String>> {
        Box::pin(async { Err("explaining is not offered here".to_owned()) })
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

pub struct NoHooks;

impl Hooks for NoHooks {}

/// The configuration of the API-driven standalone mode, as one document.
pub trait Standalone: Send + Sync {
    /// What was put last: collections, `*_conf_version`, `X-Digest`, `X-Last-Modified`.
    fn current(&self) -> Option<Arc<Value>>;
    fn replace(&self, configuration: Value) -> BoxFuture<'_, Result<(), String>>;
}

/// The argument of a write by which its client means not to write, in any spelling. Taken for nothing, it would write.
fn dry_run(request: &Request) -> Option<String> {
    let is_meant = |name: &str| {
        let letters =
            name.chars().filter(char::is_ascii_alphabetic).map(|letter| letter.to_ascii_lowercase());
        letters.eq("dryrun".chars())
    };
    let writes = !matches!(request.method.as_str(), "GET" | "HEAD" | "OPTIONS");
    let mut given = arguments(&request.query).into_iter().map(|(name, _)| name);
    given.find(|name| writes && is_meant(name))
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

    pub fn new(parts: Parts) -> AdminApi {
        AdminApi {
            settings: parts.settings,
            store: parts.store,
            plugins: RwLock::new(parts.plugins),
            stream_plugins: parts.stream_plugins,
            languages: parts.languages,
            hooks: parts.hooks,
            standalone: parts.standalone,
            audit: parts.audit,
            compiled: parts.compiled,
        }
    }

    /// Whether a path is this API's.
    pub fn owns(path: &str) -> bool {
        path.strip_prefix(PREFIX).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Takes another set of plugins from now on, as after a reload.
    pub fn set_plugins(&self, plugins: Arc<dyn PluginCatalog>) {
        *self.plugins.write().unwrap_or_else(PoisonError::into_inner) = plugins;
    }

    /// As the listener does it.
    #[cfg(test)]
    pub(crate) async fn handle(&self, request: Request) -> Response {
        match self.enter(request.head) {
            Ok(entered) => self.answer(entered, Ok(request.body)).await,
            Err(refused) => refused,
        }
    }

    /// Of a request that was let in.
    async fn dispatch(&self, request: &Request) -> Response {
        let path = request.decoded_path();
        let Some(segments) = entrance::segments(&path) else { return Response::page(404) };
        if let Some(name) = dry_run(request).filter(|name| segments != ["import"] || name != "dry_run") {
            let message = format!("unknown argument {name}: nothing was written");
            return Response::error(400, &message);
        }
        if let Some(standalone) = &self.standalone {
            return self.answer_standalone(standalone.as_ref(), request, &segments).await;
        }
        if request.path.to_ascii_lowercase().contains("%2f") {
            return Response::error(400, "a part of the path holds %2F: no name or id has a slash in it");
        }
        if let Some(response) = resource::ours(self, request, &segments).await {
            return response;
        }
        match (request.method.as_str(), segments.as_slice()) {
            ("POST", ["configs", "validate"]) => self.validate_configuration(request),
            ("GET", ["revision"]) => self.revision(),
            ("POST", ["explain"]) => self.explain(request).await,
            ("GET", ["plugins", "list"]) => self.list_plugins(request),
            ("PUT", ["plugins", "reload"]) => self.reload_plugins().await,
            (method, ["plugins", "reload"]) => Response::error(
                405,
                &format!("please use PUT method to reload the plugins, {method} method is not allowed."),
            ),
            ("POST", ["schema", "validate", name, ..]) => self.validate_resource(request, name),
            _ => self.answer_resource(request, &segments).await,
        }
    }

    async fn explain(&self, request: &Request) -> Response {
        let question = match read_body(request) {
            Ok(Some(question)) => question,
            Ok(None) => return Response::error(400, "missing question: {\"url\": \"http://HOST/PATH\"}"),
            Err(refused) => return refused,
        };
        match self.hooks.explain(question).await {
            Ok(explanation) => Response::json(200, &explanation),
            Err(reason) => Response::error(400, &format!("invalid question: {reason}")),
        }
    }

    async fn answer_resource(&self, request: &Request, segments: &[&str]) -> Response {
        let segments = match segments {
            ["schema", "plugins", rest @ ..] => [&["plugins"], rest].concat(),
            _ => segments.to_vec(),
        };
        let name = segments.first().copied().unwrap_or_default();
        if name == "stream_routes" && !self.settings.stream {
            return Response::error(400, "stream mode is disabled, can not add stream routes");
        }
        let get = request.method == "GET";
        let response = match (name, segments.get(1)) {
            ("schema", id) if get => schemas::get(id.copied().unwrap_or_default()),
            ("plugins", id) if get => self.get_plugin(request, id.copied().unwrap_or_default()),
            ("schema" | "plugins", _) => return Response::error(404, "not found"),
            _ => {
                let Some(target) = Target::parse(&segments) else {
                    return Response::error(404, &format!("Unsupported resource type: {name}"));
                };
                let body = match read_body(request) {
                    Ok(body) => body,
                    Err(refused) => return refused,
                };
                if !target.sub_path.is_empty() && request.method != "PATCH" {
                    let message = format!(
                        "{} is about a whole resource, and {} goes on after its id; PATCH changes a part of one",
                        request.method,
                        request.decoded_path()
                    );
                    return Response::error(400, &message);
                }
                let ttl = request.argument("ttl").map(|ttl| ttl.trim().parse::<f64>());
                match ttl {
                    Some(Err(_)) => return Response::error(400, "invalid argument ttl: should be a number"),
                    Some(Ok(ttl)) if ttl.is_nan() || ttl <= 0.0 => {
                        return Response::error(400, "invalid argument ttl: should be above 0");
                    }
                    _ => {}
                }
                resource::answer(self, request, &target, body).await
            }
        };
        let version = if self.settings.version == ApiVersion::V3 { "v3" } else { "v2" };
        response.with_header("X-API-VERSION", version)
    }

    pub(crate) fn plugins(&self) -> Arc<dyn PluginCatalog> {
        self.plugins.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Calls `check` with what resources are checked against.
    pub(crate) fn with_context<T>(&self, skip_references: bool, check: impl FnOnce(&Context<'_>) -> T) -> T {
        self.with_references(&StoreReferences(self.store.as_ref()), skip_references, check)
    }

    pub(crate) fn with_references<T>(
        &self,
        references: &dyn References,
        skip_references: bool,
        check: impl FnOnce(&Context<'_>) -> T,
    ) -> T {
        let plugins = self.plugins();
        check(&Context {
            plugins: plugins.as_ref(),
            stream_plugins: self.stream_plugins.as_deref(),
            languages: self.languages.as_ref(),
            references,
            skip_references,
            protocols: &self.settings.protocols,
        })
    }
}

struct StoreReferences<'a>(&'a dyn Store);

impl References for StoreReferences<'_> {
    fn get(&self, kind: Kind, id: &str) -> Option<Arc<Value>> {
        self.0.get(kind, id).map(|object| object.value())
    }

    fn each(&self, kind: Kind, visit: &mut dyn FnMut(&str, &Value)) {
        self.0.read(&mut |state| state.list(kind).for_each(|object| visit(&object.id, &object.value())));
    }
}

/// The JSON body; `None` when there is none.
pub(crate) fn read_body(request: &Request) -> Result<Option<Value>, Response> {
    let bytes = match &request.body {
        RequestBody::TooLarge(size) => return Err(too_large(*size)),
        RequestBody::Bytes(bytes) if bytes.len() as u64 > BODY_LIMIT => {
            return Err(too_large(bytes.len() as u64));
        }
        RequestBody::Bytes(bytes) => bytes,
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    json::parse(bytes).map(Some).map_err(|error| {
        let message = format!("invalid request body: {error}");
        let body = String::from_utf8_lossy(bytes);
        Response::json(400, &json!({"error_msg": message, "req_body": body}))
    })
}

pub(crate) fn too_large(size: u64) -> Response {
    let message = format!(
        "invalid request body: request size {size} is greater than the maximum size {BODY_LIMIT} allowed"
    );
    Response::error(400, &message)
}

#[cfg(test)]
mod tests;
