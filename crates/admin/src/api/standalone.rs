//! API-driven standalone mode: `/configs` holds the whole configuration, the resources can be read.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Map, Value, json};
use tidegate_model::{
    nearest::hint,
    strays::{self, is_for_anchors},
};
use tidegate_telemetry::error_log::{Level, log};

use super::configurations::{COLLECTIONS, read_document};
use crate::{
    admin_api::{AdminApi, Standalone},
    at_length::at_length,
    compiled::named,
    documents::Holds,
    message::{REVISION, Request, Response, WARNING, header_text},
    resource::target::Target,
};

const DIGEST: &str = "X-Digest";
const NO_DIGEST: &str = "missing digest header: send X-Digest, a value that differs between configurations";
const LAST_MODIFIED: &str = "X-Last-Modified";

/// What is read as in other modes: objects, plugins, schemas.
pub(super) fn is_view(method: &str, segments: &[&str]) -> bool {
    method == "GET"
        && (matches!(segments.first(), Some(&("plugins" | "schema"))) || Target::parse(segments).is_some())
}

/// Whether this mode has such a path.
pub(super) fn offers(method: &str, segments: &[&str]) -> bool {
    is_view(method, segments)
        || matches!(
            (method, segments),
            ("POST", ["configs", "validate"] | ["explain"])
                | ("GET" | "PUT" | "HEAD", ["configs"])
                | ("GET" | "POST" | "DELETE", ["sessions"])
                | ("POST", ["sessions", "oidc"])
                | ("GET" | "DELETE", ["sessions", "current"])
                | (
                    "GET",
                    ["revision"]
                        | ["openapi.json"]
                        | ["mode"]
                        | ["stats"]
                        | ["traffic"]
                        | ["rejected"]
                        | ["healthcheck"]
                )
        )
}

/// The response to who would change an object by itself.
pub(super) fn not_offered() -> Response {
    let message = "API-driven standalone mode has no such call: PUT /apisix/admin/configs sets the whole configuration, and objects \
                   and plugins are read with GET";
    Response::error(404, message)
}

impl AdminApi {
    pub(super) async fn answer_standalone(
        &self,
        standalone: &dyn Standalone,
        request: &Request,
        segments: &[&str],
    ) -> Response {
        let current = standalone.current();
        let current = current.as_deref();
        match request.method.as_str() {
            _ if segments == ["configs", "validate"] => self.validate_configuration(request),
            _ if segments == ["revision"] => self.revision(),
            _ if segments == ["explain"] => self.explain(request).await,
            "PUT" => self.put_configuration(standalone, request, current).await,
            "HEAD" => with_metadata(Response::empty(200), current),
            // The whole of it, in plain, for role admin: as with `GET /export`.
            _ => {
                let accept = request.header("accept").unwrap_or_default();
                let yaml = accept.starts_with("application/yaml");
                let current = standalone.current();
                let make = move || get_configuration(yaml, current.as_deref());
                self.documents.get(format!("configs {yaml}"), Holds::Now, make).await
            }
        }
    }

    async fn put_configuration(
        &self,
        standalone: &dyn Standalone,
        request: &Request,
        current: Option<&Value>,
    ) -> Response {
        let Some(digest) = request.header(DIGEST) else {
            return Response::error(400, NO_DIGEST);
        };
        let document = match at_length(|| read_document(request, None)) {
            Ok(document) => document,
            Err(refused) => return refused,
        };
        if current.and_then(|current| current.get(DIGEST)).and_then(Value::as_str) == Some(digest) {
            return Response::empty(204);
        }
        // Lists whose version has not changed are kept: the outcome is what counts.
        let next = next_configuration(&document, current);
        let outcome = next.as_ref().map_or_else(|_| document.clone(), |next| Value::Object(next.clone()));
        if let Some(faults) = at_length(|| self.faults(&document, &outcome)) {
            return faults.refuse(&faults.message());
        }
        if let Some(fault) = strays::first(&document) {
            return Response::error(400, &fault);
        }
        let mut warnings = warn_of_unknown(&document);
        let mut next = match next {
            Ok(next) => next,
            Err(error) => return Response::error(400, &error),
        };
        if let Some(faults) = self.try_out(&outcome) {
            return faults.refuse(&faults.message());
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs());
        next.insert(LAST_MODIFIED.into(), json!(now));
        next.insert(DIGEST.into(), json!(digest));
        let next = Value::Object(next);
        match standalone.replace(next.clone()).await {
            Ok(()) => {
                let response = with_metadata(Response::empty(202), Some(&next))
                    .with_header(REVISION, self.stored_revision().to_string());
                let known = [self.compiled.rejected(), self.compiled.warnings()].concat();
                warnings.extend(known.iter().map(named));
                warnings.extend(at_length(|| self.in_vain(&next)));
                warned_of_all(response, &warnings)
            }
            Err(error) => Response::text(500, &error),
        }
    }
}

/// APISIX ignores them, too, but in silence. What a header is to say.
fn warn_of_unknown(document: &Value) -> Vec<String> {
    let mut told = Vec::new();
    let keys = document.as_object().into_iter().flat_map(Map::keys);
    for key in keys.filter(|key| !is_for_anchors(key)) {
        let name = key.strip_suffix("_conf_version").unwrap_or(key);
        if !COLLECTIONS.iter().any(|(known, _)| *known == name) {
            let hint = hint(name, COLLECTIONS.iter().map(|(known, _)| *known));
            let text = format!("unknown key [{key}] is ignored{hint}");
            log(Level::Warn, format_args!("PUT /apisix/admin/configs: {text}"));
            told.push(text);
        }
    }
    told
}

/// Says what of the configuration is ignored, or cannot be used yet.
fn warned_of_all(response: Response, warnings: &[String]) -> Response {
    let Some(first) = warnings.first() else { return response };
    let more = match warnings.len() {
        1 => String::new(),
        count => {
            format!("; and {} more, see the error log and GET /v1/rejected of the Control API", count - 1)
        }
    };
    response.with_header(WARNING, header_text(&format!("{first}{more}")))
}

/// A collection whose version is given and unchanged is kept.
fn next_configuration(document: &Value, current: Option<&Value>) -> Result<Map<String, Value>, String> {
    let mut next = Map::new();
    for (collection, _) in COLLECTIONS {
        let field = format!("{collection}_conf_version");
        let version = current.and_then(|current| current.get(&field)).and_then(Value::as_f64).unwrap_or(0.0);
        let wanted = document.get(&field).and_then(Value::as_f64);
        if wanted.is_some_and(|wanted| wanted < version) {
            return Err(format!("{field} must be greater than or equal to ({version})"));
        }
        let wanted = wanted.unwrap_or(version + 1.0);
        #[expect(clippy::cast_possible_truncation, reason = "versions are counters and times")]
        next.insert(field, if wanted.fract() == 0.0 { json!(wanted as i64) } else { json!(wanted) });
        let source = if wanted == version { current } else { Some(document) };
        let items = source
            .and_then(|source| source.get(collection))
            .filter(|items| items.as_array().is_some_and(|items| !items.is_empty()));
        if let Some(items) = items {
            next.insert(collection.into(), items.clone());
        }
    }
    Ok(next)
}

fn get_configuration(yaml: bool, current: Option<&Value>) -> Response {
    let none = || {
        let versions = COLLECTIONS.iter().map(|(name, _)| (format!("{name}_conf_version"), json!(0)));
        Value::Object(versions.collect())
    };
    let shown = current.cloned().unwrap_or_else(none);
    let response = if yaml {
        match serde_saphyr::to_string(&shown) {
            Ok(text) => Response::typed(200, "application/yaml", text.trim_end()),
            Err(_) => Response::error(500, "failed to encode yaml"),
        }
    } else {
        Response::typed(200, "application/json", &shown.to_string())
    };
    with_metadata(response, current)
}

fn with_metadata(mut response: Response, configuration: Option<&Value>) -> Response {
    for name in [LAST_MODIFIED, DIGEST] {
        if let Some(value) = configuration.and_then(|configuration| configuration.get(name)) {
            response = response.with_header(name, tidegate_model::schema::lua::text(value));
        }
    }
    response
}
