//! The Admin API: which part answers. Who may ask is in [`entrance`].

pub(crate) mod body;
pub(crate) mod configurations;
mod entrance;
mod json;
mod mode;
mod oidc;
mod own_password;
pub(crate) mod plugins;
pub(crate) mod revisions;
mod schemas;
mod scoped;
mod sign_in;
mod standalone;
pub(crate) mod stats;
mod traffic;
mod users;
mod values;

pub(crate) use self::values::Values;
pub use self::{body::BODY_LIMIT, entrance::Entered};
use serde_json::{Value, json};
use tidegate_model::{Kind, remedy};

use self::body::read_body;
use crate::{
    AdminApi, ApiVersion,
    message::{Request, Response},
    resource::{self, target::Target},
};

impl AdminApi {
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
        if (request.method.as_str(), segments.as_slice()) == ("GET", &["openapi.json"]) {
            return self.openapi().await;
        }
        match (request.method.as_str(), segments.as_slice()) {
            ("GET", ["mode"]) => return self.mode(),
            ("GET", ["rejected"]) => return self.in_scope(request, self.hooks.control("/v1/rejected").await),
            ("GET", ["traffic"]) => return self.traffic(request).await,
            ("GET", ["stats"]) => return self.stats(request).await,
            ("GET", ["healthcheck"]) => {
                return self.in_scope(request, self.hooks.control("/v1/healthcheck").await);
            }
            _ => {}
        }
        match segments.first() {
            Some(&"sessions") => return self.answer_sessions(request, &segments).await,
            Some(&"users") => return self.answer_users(request, &segments).await,
            _ => {}
        }
        let is_view = standalone::is_view(&request.method, &segments);
        if let Some(standalone) = self.standalone.as_ref().filter(|_| !is_view) {
            return self.answer_standalone(standalone.as_ref(), request, &segments).await;
        }
        if request.path.to_ascii_lowercase().contains("%2f") {
            return Response::error(400, "invalid path: names and ids cannot contain a slash (%2F)");
        }
        if let Some(response) = resource::handle_whole_configuration(self, request, &segments).await {
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

    /// What to do, where the message of a refused write does not say it. The message stays APISIX's.
    fn with_remedy(&self, request: &Request, response: Response, target: (Kind, &str)) -> Response {
        if response.status != 400 || response.stream.is_some() {
            return response;
        }
        let body: Option<Value> = serde_json::from_slice(&response.body).ok();
        let Some(Value::Object(mut body)) = body.filter(|body| body.get("remedy").is_none()) else {
            return response;
        };
        let message = body.get("error_msg").and_then(Value::as_str).unwrap_or_default();
        let sent = read_body(request).ok().flatten();
        let Some(text) = remedy::remedy(Some(target), sent.as_ref(), message, self.plugins().as_ref()) else {
            return response;
        };
        body.insert("remedy".to_owned(), text.into());
        let said = Response::json(400, &Value::Object(body));
        Response { body: said.body, ..response }
    }

    async fn explain(&self, request: &Request) -> Response {
        let question = match read_body(request) {
            Ok(Some(question)) => question,
            Ok(None) => return Response::error(400, "missing request body: {\"url\": \"http://HOST/PATH\"}"),
            Err(refused) => return refused,
        };
        match self.hooks.explain(question).await {
            Ok(explanation) => Response::json(200, &explanation),
            Err(reason) => Response::error(400, &format!("invalid explain request: {reason}")),
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
                        "{} applies to a whole resource, but {} continues after its id; use PATCH to change \
                         a part",
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
                let response = resource::answer(self, request, &target, body).await;
                self.with_remedy(request, response, (target.kind, target.id.as_deref().unwrap_or_default()))
            }
        };
        let version = if self.settings.version == ApiVersion::V3 { "v3" } else { "v2" };
        response.with_header("X-API-VERSION", version)
    }
}

#[cfg(test)]
mod tests;
