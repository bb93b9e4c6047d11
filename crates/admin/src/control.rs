//! The Control API: what this process currently works with. No authentication: it listens on loopback.

mod health;
mod view;

use std::sync::Arc;

use model::{Kind, PluginCatalog, Rejected, SchemaKind, encrypt::mask_resource, schemas};
use serde_json::{Map, Value, json};
use store::{BoxFuture, Store};

pub use self::health::{HealthView, NoHealth, NodeHealth};
use crate::{
    Audit, Compiled,
    api::plugins::all,
    message::{Head, Response},
};

pub struct ControlApi {
    parts: ControlParts,
}

/// What a [`ControlApi`] is made of.
pub struct ControlParts {
    /// The first part of shown keys: `/apisix` with a database, empty with files.
    pub key_prefix: String,
    pub server: &'static str,
    pub store: Arc<dyn Store>,
    pub plugins: Arc<dyn PluginCatalog>,
    pub stream_plugins: Option<Arc<dyn PluginCatalog>>,
    pub health: Arc<dyn HealthView>,
    pub hooks: Arc<dyn ControlHooks>,
    /// Where every attempt to change something is told.
    pub audit: Option<Arc<Audit>>,
    pub compiled: Arc<dyn Compiled>,
}

/// What others add to the Control API.
pub trait ControlHooks: Send + Sync {
    /// Paths of plugins and of service discovery; asked first. `None` when the path is not theirs.
    fn answer<'a>(&'a self, _head: &'a Head) -> BoxFuture<'a, Option<Response>> {
        Box::pin(async { None })
    }
    /// `PUT /v1/plugins/reload`; the error becomes the body of a 503.
    fn reload_plugins(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async { Ok(()) })
    }
    /// `POST /v1/gc`: give memory back.
    fn collect_garbage(&self) {}
}

pub struct NoControlHooks;

impl ControlHooks for NoControlHooks {}

impl ControlApi {
    pub fn new(parts: ControlParts) -> ControlApi {
        ControlApi { parts }
    }

    /// No question here takes a body.
    pub async fn handle(&self, request: Head) -> Response {
        let audit = self.parts.audit.as_ref().filter(|_| !matches!(request.method.as_str(), "GET" | "HEAD"));
        let mut attempt = audit.map(|audit| audit.attempt("control", &request, None));
        let response = match self.parts.hooks.answer(&request).await {
            Some(response) => response,
            None => self.answer(&request).await,
        };
        if let Some(attempt) = &mut attempt {
            attempt.answered(&response);
        }
        drop(attempt);
        response.with_header("Server", self.parts.server)
    }

    async fn answer(&self, request: &Head) -> Response {
        let path = request.decoded_path();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["v1", "schema"]) => self.schema(),
            ("GET", ["v1", "healthcheck"]) => health::all(&self.parts, request),
            ("GET", ["v1", "healthcheck", rest @ ..]) => health::one(&self.parts, request, rest),
            ("GET", ["v1", "routes"]) => self.list(Kind::Route),
            ("GET", ["v1", "services"]) => self.list(Kind::Service),
            ("GET", ["v1", "upstreams"]) => self.list(Kind::Upstream),
            ("GET", ["v1", "route", id, ..]) => self.object(Kind::Route, id),
            ("GET", ["v1", "service", id, ..]) => self.object(Kind::Service, id),
            ("GET", ["v1", "upstream", id, ..]) => self.object(Kind::Upstream, id),
            ("GET", ["v1", "plugin_metadatas"]) => self.all_metadata(),
            ("GET", ["v1", "plugin_metadata", name, ..]) => self.metadata(name),
            ("GET", ["v1", "rejected"]) => self.rejected(),
            ("GET", ["v1", "store"]) => self.store(),
            ("POST", ["v1", "gc"]) => {
                self.parts.hooks.collect_garbage();
                Response::empty(200)
            }
            ("PUT", ["v1", "plugins", "reload"]) => match self.parts.hooks.reload_plugins().await {
                Ok(()) => Response::text(200, "done"),
                Err(error) => Response::text(503, &error),
            },
            _ => Response::page(404),
        }
    }

    fn schema(&self) -> Response {
        let names = [
            "consumer",
            "consumer_group",
            "global_rule",
            "graphql_cost_decoration",
            "plugin_config",
            "plugins",
            "proto",
            "route",
            "service",
            "ssl",
            "stream_route",
            "upstream",
            "upstream_hash_header_schema",
            "upstream_hash_vars_schema",
        ];
        let main =
            names.iter().filter_map(|name| Some(((*name).to_owned(), schemas::document(name)?.clone())));
        let body = json!({
            "main": main.collect::<Map<String, Value>>(),
            "plugins": all(Some(self.parts.plugins.as_ref())),
            "stream_plugins": all(self.parts.stream_plugins.as_deref()),
        });
        Response::json(200, &body)
    }

    fn list(&self, kind: Kind) -> Response {
        let mut list = Vec::new();
        self.parts.store.read(&mut |state| list = state.list(kind).cloned().collect());
        list_response(list.iter().map(|object| view::object(&self.parts, object)).collect())
    }

    fn object(&self, kind: Kind, id: &str) -> Response {
        match self.parts.store.get(kind, id) {
            Some(object) => Response::json(200, &view::object(&self.parts, &object)),
            None => Response::error(404, &format!("{}[{id}] not found", kind.noun())),
        }
    }

    /// The objects that cannot be used, and what becomes of what they guard.
    /// Whether the store is what is served.
    fn store(&self) -> Response {
        let mut revision = 0;
        self.parts.store.read(&mut |state| revision = state.revision);
        let answer = match self.parts.store.last_good() {
            None => json!({"state": "good", "revision": revision}),
            Some(state) => json!({
                "state": "last_good",
                "revision": revision,
                "copy": state.copy,
                "lag": state.lag,
                "writes_behind": state.writes_behind,
                "problem": state.problem,
                "remedy": "tidegate config repair, then tidegate upgrade",
            }),
        };
        Response::json(200, &answer)
    }

    fn rejected(&self) -> Response {
        let rejected = self.parts.compiled.rejected();
        let shown = rejected.iter().map(|object| {
            json!({
                "kind": object.kind.directory(),
                "id": &*object.id,
                "reason": object.reason,
                "effect": if self.is_off(object) { "none: it is disabled" } else { effect(object.kind) },
            })
        });
        Response::json(200, &json!({"total": rejected.len(), "list": shown.collect::<Vec<_>>()}))
    }

    /// What is off has no place that could be shut.
    fn is_off(&self, object: &Rejected) -> bool {
        let stored = self.parts.store.get(object.kind, &object.id);
        matches!(object.kind, Kind::Route | Kind::Ssl)
            && stored.is_some_and(|stored| stored.value().get("status") == Some(&json!(0)))
    }

    fn all_metadata(&self) -> Response {
        let names = self.parts.plugins.enabled().into_iter();
        list_response(names.filter_map(|name| self.metadata_of(name)).collect())
    }

    fn metadata(&self, name: &str) -> Response {
        match self.metadata_of(name) {
            Some(value) => Response::json(200, &value),
            None => Response::error(404, &format!("plugin metadata[{name}] not found")),
        }
    }

    fn metadata_of(&self, name: &str) -> Option<Value> {
        let object = self.parts.store.get(Kind::PluginMetadata, name)?;
        let mut value = Arc::unwrap_or_clone(object.value());
        // Checked when it was stored; what fails now is shown as it is.
        let _ = self.parts.plugins.check(name, SchemaKind::Metadata, &mut value);
        mask_resource(Kind::PluginMetadata, name, &mut value, self.parts.plugins.as_ref());
        Some(value)
    }
}

/// What follows from an object that cannot be used.
fn effect(kind: Kind) -> &'static str {
    match kind {
        Kind::GlobalRule => "every request is answered 503",
        Kind::Route => "its requests are answered 503",
        Kind::Service | Kind::PluginConfig => "requests of its routes are answered 503",
        Kind::ConsumerGroup => "requests of its consumers are answered 503",
        Kind::Consumer => "nobody is recognised as this consumer",
        Kind::Credential => "nobody is recognised by this credential",
        Kind::Upstream => "no request reaches its nodes",
        Kind::Ssl => "handshakes for its names are refused",
        Kind::PluginMetadata => "the plugin works without it",
        Kind::Secret => "references to it lead nowhere",
        Kind::Proto | Kind::StreamRoute | Kind::GraphqlCostDecoration => "it is not used",
    }
}

/// An empty list is an empty object to Lua's encoder, and clients have learnt that.
fn list_response(list: Vec<Value>) -> Response {
    Response::json(200, &if list.is_empty() { json!({}) } else { Value::Array(list) })
}

#[cfg(test)]
mod tests;
