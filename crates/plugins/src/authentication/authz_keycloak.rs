//! Asks Keycloak whether the owner of an access token has a permission (UMA 2.0, grant type `uma-ticket`).
//!
//! ```text
//! lazy_load_paths: resources of the path, asked for with a token of the client's own -> permissions
//! decision:        POST token_endpoint with the token and the permissions -> {"result": true}
//! ```

mod realm;

use std::sync::Arc;
use std::time::Duration;

use realm::{Realm, Settings, unavailable};
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{ClientOptions, Incoming, TlsWanted};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, Why,
};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    auth,
    conf::typed,
    service::{self, check_url},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "authz-keycloak",
    version: 0.1,
    priority: 2000,
    schema: include_str!("authz_keycloak.json"),
    encrypt_fields: &["client_secret"],
    phases: Phases::ACCESS,
    headers: &[("access_denied_redirect_uri", Text::Value)],
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    #[serde(flatten)]
    realm: Settings,
    max_req_body_size: u64,
    grant_type: String,
    policy_enforcement_mode: String,
    permissions: Vec<String>,
    lazy_load_paths: bool,
    http_method_as_scope: bool,
    timeout: u64,
    ssl_verify: bool,
    keepalive: bool,
    keepalive_timeout: u64,
    keepalive_pool: usize,
    access_denied_redirect_uri: Option<String>,
    password_grant_token_generation_incoming_uri: Option<String>,
}

struct AuthzKeycloak {
    conf: Conf,
    realm: Realm,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let urls = ["discovery", "token_endpoint", "resource_registration_endpoint"];
    urls.iter().try_for_each(|field| check_url(conf, field))
}

fn remarks(conf: &Value) -> Vec<String> {
    let is_lazy = conf.get("lazy_load_paths") == Some(&Value::Bool(true));
    let named = conf.get("permissions").and_then(Value::as_array).is_some_and(|names| !names.is_empty());
    let remark = "permissions has no effect with lazy_load_paths";
    (is_lazy && named).then(|| remark.to_owned()).into_iter().collect()
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let options = ClientOptions {
        timeout: Duration::from_millis(conf.timeout),
        tls: TlsWanted { verify: conf.ssl_verify, client: None },
        keepalive: conf.keepalive,
        keepalive_timeout: Duration::from_millis(conf.keepalive_timeout),
        keepalive_pool: conf.keepalive_pool,
        ..ClientOptions::default()
    };
    let realm = Realm::new(conf.realm.clone(), options);
    Ok(Arc::new(AuthzKeycloak { conf, realm }))
}

/// The client's token, as the header field of a question to the server.
fn token_of(request: &Request) -> Result<Vec<u8>, Box<Reply>> {
    let missing = || Box::new(Reply::message(401, "Missing JWT token in request"));
    match auth::credentials(request, "Authorization") {
        Ok(Some(b"" | b"Bearer" | b"bearer" | b"Bearer " | b"bearer ")) => Err(missing()),
        Ok(Some(token)) => Ok(match token.get(..7) {
            Some(b"Bearer " | b"bearer ") => token.to_vec(),
            _ => [b"Bearer ", token].concat(),
        }),
        Ok(None) => Err(missing()),
        Err(reason) => {
            error_log::log(Level::Warn, format_args!("authz-keycloak: {reason}"));
            Err(missing())
        }
    }
}

impl Plugin for AuthzKeycloak {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.authorize(request))
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        if self.is_token_request(request) {
            return Foresight::answers_somehow(Why::Asks);
        }
        match token_of(request) {
            Err(reply) => Foresight::answers(&reply),
            Ok(_) => Foresight::maybe(403, Why::Asks),
        }
    }
}

impl AuthzKeycloak {
    async fn authorize(&self, request: &mut Request) -> Verdict {
        if self.is_token_request(request) {
            return Err(self.token(request).await);
        }
        let token = token_of(request)?;
        let permissions = self.permissions(request).await?;
        if permissions.is_empty() && self.conf.policy_enforcement_mode == "ENFORCING" {
            let body = r#"{"error":"access_denied","error_description":"not_authorized"}"#;
            return Err(self.denied(Reply::bytes(403, body)));
        }
        let endpoint = self.realm.token_endpoint().await?;
        let conf = &self.conf;
        let mut fields = vec![
            ("grant_type", conf.grant_type.as_str()),
            ("audience", conf.realm.client_id.as_str()),
            ("response_mode", "decision"),
        ];
        fields.extend(permissions.iter().map(|permission| ("permission", permission.as_str())));
        let answer = self.realm.post(&endpoint, &fields, Some(&token)).await;
        self.decide(&endpoint, answer.map_err(|reason| unavailable(&reason))?).await
    }

    /// Nothing but 200 with `{"result":true}` lets a request through.
    async fn decide(&self, endpoint: &str, answer: Incoming) -> Verdict {
        match answer.status {
            200 => match service::json(endpoint, &answer).await {
                Ok(value) if value.get("result") == Some(&Value::Bool(true)) => Ok(()),
                Ok(value) if value.get("result") == Some(&Value::Bool(false)) => {
                    Err(self.denied(Reply::bytes(403, answer.body)))
                }
                Ok(_) => Err(unavailable(&format!("{endpoint} answered no decision"))),
                Err(reason) => Err(unavailable(&reason)),
            },
            403 => Err(self.denied(Reply::bytes(403, answer.body))),
            401 => Err(Box::new(Reply::bytes(401, answer.body))),
            status @ 400.. => {
                error_log::log(
                    Level::Error,
                    format_args!("authz-keycloak: {endpoint}: {}", answer.refusal()),
                );
                Err(Box::new(Reply::bytes(status, answer.body)))
            }
            status => Err(unavailable(&format!("{endpoint} answered {status}"))),
        }
    }

    fn denied(&self, reply: Reply) -> Box<Reply> {
        Box::new(match &self.conf.access_denied_redirect_uri {
            Some(uri) => Reply::page(307).header("Location", uri),
            None => reply,
        })
    }

    /// Those of the configuration, or the resources that Keycloak has for the path.
    async fn permissions(&self, request: &Request) -> Result<Vec<String>, Box<Reply>> {
        let mut permissions = match self.conf.lazy_load_paths {
            true => self.realm.resources(&String::from_utf8_lossy(&request.unambiguous_path())).await?,
            false => self.conf.permissions.clone(),
        };
        if self.conf.http_method_as_scope {
            let scope = String::from_utf8_lossy(request.head.method.as_bytes());
            for permission in &mut permissions {
                let separator = if permission.contains('#') { ", " } else { "#" };
                permission.push_str(separator);
                permission.push_str(&scope);
            }
        }
        Ok(permissions)
    }

    /// A user who asks for a token with name and password.
    fn is_token_request(&self, request: &Request) -> bool {
        let uri = self.conf.password_grant_token_generation_incoming_uri.as_ref();
        uri.is_some_and(|uri| uri.as_bytes() == request.head.target())
            && request.header("Content-Type") == Some(b"application/x-www-form-urlencoded")
            && request.head.method.as_bytes() == b"POST"
    }

    async fn token(&self, request: &mut Request) -> Box<Reply> {
        let limit = usize::try_from(self.conf.max_req_body_size).unwrap_or(usize::MAX);
        let body = match request.collect_body(limit).await {
            Ok(body) if !body.is_empty() => body,
            Ok(_) => return unavailable("a request for a token has no body"),
            Err(reply) => {
                return unavailable(&format!("a request for a token cannot be read: {}", reply.status));
            }
        };
        let field = |name: &str| {
            let mut pairs = tidegate_protocol::uri::query_pairs(&body);
            let value = pairs.find(|(key, _)| *key == name.as_bytes())?.1?;
            Some(String::from_utf8_lossy(&tidegate_protocol::uri::percent_decode(value, true)).into_owned())
        };
        let missing = |name: &str| Box::new(Reply::message(422, &format!("{name} is missing.")));
        let Some(username) = field("username") else { return missing("username") };
        let Some(password) = field("password") else { return missing("password") };
        let endpoint = match self.realm.token_endpoint().await {
            Ok(endpoint) => endpoint,
            Err(reply) => return reply,
        };
        let mut fields = self.realm.credentials("password");
        fields.extend([("username", username.as_str()), ("password", password.as_str())]);
        let refused = |message: &str, reason: &str| {
            error_log::log(Level::Error, format_args!("authz-keycloak: no token for a user: {reason}"));
            Box::new(Reply::message(401, message))
        };
        let answer = match self.realm.post(&endpoint, &fields, None).await {
            Ok(answer) => answer,
            Err(reason) => return refused("Accessing token endpoint URL failed.", &reason),
        };
        match realm::object(&endpoint, &answer).await {
            Ok(_) => Box::new(Reply::bytes(200, answer.body)),
            Err(reason) => refused("Could not decode JSON from response.", &reason),
        }
    }
}
