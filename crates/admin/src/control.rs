//! The Control API: what this process currently works with. No authentication: it listens on loopback, and answers to names
//! of this machine only.

mod health;
pub(super) mod inspect;
mod lists;
pub(super) mod parts;
mod view;

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_model::{Kind, Rejected, SchemaKind, mask::mask_resource, schemas};

pub use self::parts::{HealthView, NoHealth, NodeHealth};
use self::{
    inspect::{heap, profile},
    lists::list_response,
    parts::ControlParts,
};
use crate::{
    api::plugins::all,
    arguments,
    documents::{Documents, Holds},
    message::{Head, Response},
};

/// Responses that clients have not taken yet may take so much before no further one is begun.
const MOST_BYTES: usize = 64 << 20;

/// The Control API: what is loaded, and how healthy it is.
pub struct ControlApi {
    parts: Arc<ControlParts>,
    documents: Arc<Documents>,
}

impl ControlApi {
    /// An API that no listener serves yet.
    pub fn new(parts: ControlParts) -> ControlApi {
        ControlApi { parts: Arc::new(parts), documents: Documents::new("Control API", MOST_BYTES) }
    }

    /// No question here takes a body.
    pub async fn handle(&self, request: Head) -> Response {
        let audit = self.parts.audit.as_ref().filter(|_| !matches!(request.method.as_str(), "GET" | "HEAD"));
        let mut attempt = audit.map(|audit| audit.attempt("control", &request, None));
        let response = match self.parts.hosts.check(&request) {
            Ok(()) => {
                let warnings = arguments::warn_of(&request, &request.decoded_path());
                arguments::warn(self.answer(&request).await, &warnings)
            }
            Err(refused) => refused,
        };
        if let Some(attempt) = &mut attempt {
            attempt.answered(&response);
        }
        drop(attempt);
        response.with_header("Server", self.parts.server)
    }

    /// What is shown at a path, for the Admin API, which has let its client in.
    pub async fn show(&self, path: &str) -> Response {
        let head = Head {
            method: "GET".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            headers: Vec::new(),
            peer: std::net::IpAddr::from([127, 0, 0, 1]),
        };
        self.document(&head, path).await
    }

    async fn answer(&self, request: &Head) -> Response {
        let path = request.decoded_path();
        let segments: Vec<&str> = path.split('/').skip(1).collect();
        match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["v1", "store"]) => self.store(),
            ("GET", ["v1", "profile"]) => profile(self.parts.inspect.as_deref(), request).await,
            ("GET", ["v1", "heap"]) => heap(self.parts.inspect.as_deref(), request),
            ("POST", ["v1", "gc"]) => {
                self.parts.hooks.collect_garbage();
                Response::empty(200)
            }
            ("PUT", ["v1", "plugins", "reload"]) => match self.parts.hooks.reload_plugins().await {
                Ok(()) => Response::text(200, "done"),
                Err(error) => Response::text(503, &error),
            },
            ("GET", ["v1", ..]) => match self.parts.plugins.control(&path, &request.query) {
                Some(Value::String(text)) => Response::text(200, &text),
                Some(value) => Response::json(200, &value),
                None => self.document(request, &path).await,
            },
            _ => Response::page(404),
        }
    }

    /// What may be large is made aside.
    async fn document(&self, request: &Head, path: &str) -> Response {
        let holds = match path.split('/').nth(2) {
            // Checks, registries and the compiler change their state between revisions.
            Some("healthcheck" | "discovery" | "rejected") | None => Holds::Now,
            Some(_) => Holds::AtRevision(self.revision()),
        };
        let accept = request.header("accept").filter(|_| holds == Holds::Now).unwrap_or_default();
        let question = format!("{path}\n{accept}");
        let (parts, request, path) = (self.parts.clone(), request.clone(), path.to_owned());
        self.documents.get(question, holds, move || parts.shown(&request, &path)).await
    }

    fn revision(&self) -> u64 {
        let mut revision = 0;
        self.parts.store.read(&mut |state| revision = state.revision);
        revision
    }

    /// Whether the store is what is served.
    fn store(&self) -> Response {
        let revision = self.revision();
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
}

impl ControlParts {
    fn shown(&self, request: &Head, path: &str) -> Response {
        let segments: Vec<&str> = path.split('/').skip(2).collect();
        match segments.as_slice() {
            ["schema"] => self.schema(),
            ["healthcheck"] => match self.hooks.not_serving() {
                Some(reason) => Response::error(503, reason),
                None => health::all(self, request),
            },
            ["healthcheck", rest @ ..] => health::one(self, request, rest),
            ["routes"] => self.list(Kind::Route),
            ["services"] => self.list(Kind::Service),
            ["upstreams"] => self.list(Kind::Upstream),
            ["route", id, ..] => self.object(Kind::Route, id),
            ["service", id, ..] => self.object(Kind::Service, id),
            ["upstream", id, ..] => self.object(Kind::Upstream, id),
            ["plugin_metadatas"] => self.all_metadata(),
            ["plugin_metadata", name, ..] => self.metadata(name),
            ["rejected"] => self.rejected(),
            ["discovery", ..] => self.hooks.discovered(request).unwrap_or_else(|| Response::page(404)),
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
            "plugins": all(Some(self.plugins.as_ref())),
            "stream_plugins": all(self.stream_plugins.as_deref()),
        });
        Response::json(200, &body)
    }

    fn list(&self, kind: Kind) -> Response {
        let mut list = Vec::new();
        self.store.read(&mut |state| list = state.list(kind).cloned().collect());
        list_response(list.iter().map(|object| view::object(self, object)))
    }

    fn object(&self, kind: Kind, id: &str) -> Response {
        match self.store.get(kind, id) {
            Some(object) => Response::json(200, &view::object(self, &object)),
            None => Response::error(404, &format!("{}[{id}] not found", kind.noun())),
        }
    }

    /// The objects that cannot be used, and what becomes of what they guard.
    fn rejected(&self) -> Response {
        let rejected = self.compiled.rejected();
        let shown = rejected.iter().map(|object| {
            json!({
                "kind": object.kind.directory(),
                "id": &*object.id,
                "reason": object.reason,
                "effect": self.effect(object),
            })
        });
        Response::json(200, &json!({"total": rejected.len(), "list": shown.collect::<Vec<_>>()}))
    }

    fn effect(&self, object: &Rejected) -> &'static str {
        let Some(stored) = self.store.get(object.kind, &object.id) else { return effect(object.kind) };
        let is_off = || stored.place().get("status") == Some(&json!(0));
        if stored.unread.is_some() && stored.fault.is_none() {
            "none: the last valid version stays in use"
        } else if object.is_placeless {
            "unknown: other routes may serve its requests"
        } else if matches!(object.kind, Kind::Route | Kind::Ssl) && is_off() {
            // What is off has no place that could be shut.
            "none: it is disabled"
        } else if object.kind == Kind::PluginMetadata && stored.fault.is_some_and(|fault| !fault.in_text) {
            "the plugin uses what it can read of it"
        } else {
            effect(object.kind)
        }
    }

    fn all_metadata(&self) -> Response {
        let names = self.plugins.enabled().into_iter();
        list_response(names.filter_map(|name| self.metadata_of(name)))
    }

    fn metadata(&self, name: &str) -> Response {
        match self.metadata_of(name) {
            Some(value) => Response::json(200, &value),
            None => Response::error(404, &format!("plugin metadata[{name}] not found")),
        }
    }

    fn metadata_of(&self, name: &str) -> Option<Value> {
        let object = self.store.get(Kind::PluginMetadata, name)?;
        let mut value = Arc::unwrap_or_clone(object.value());
        // Checked when it was stored; what fails now is shown unchanged.
        let _ = self.plugins.check(name, SchemaKind::Metadata, &mut value);
        mask_resource(Kind::PluginMetadata, name, &mut value, self.plugins.as_ref());
        Some(value)
    }
}

/// What follows from an object that cannot be used.
fn effect(kind: Kind) -> &'static str {
    match kind {
        Kind::GlobalRule => "every request is answered 503",
        Kind::Route => "its requests are answered 503",
        Kind::Service => "requests of its routes are answered 503, sessions of its stream routes are closed",
        Kind::PluginConfig => "requests of its routes are answered 503",
        Kind::ConsumerGroup => "requests of its consumers are answered 503",
        Kind::Consumer => "no request authenticates as this consumer",
        Kind::Credential => "no request authenticates with this credential",
        Kind::Upstream => "no request reaches its nodes",
        Kind::Ssl => "handshakes for its names are refused",
        Kind::PluginMetadata => "the plugin works without it",
        Kind::Secret => "references to it do not resolve",
        Kind::GraphqlCostDecoration => "it does not count in the costs of queries",
        Kind::StreamRoute => "the sessions that it is for are closed",
        Kind::Proto => "it is not used",
    }
}

#[cfg(test)]
mod tests;
