//! OpenID Connect (Core 1.0): checks access tokens that requests bring, or logs browsers in with the code flow.
//!
//! Not there: front- and back-channel logout.

mod authorization;
mod bearer;
mod client;
mod conf;
mod dpop;
mod ended;
mod flow;
mod id_token;
mod making;
mod provider;
mod relying_party;
mod session;
mod sign_in;

use std::sync::Arc;

use relying_party::OpenidConnect;
use serde_json::Value;
use tidegate_clients::{jws::Algorithm, rsa_size::size_remark};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, Step, Verdict, Why,
};

pub use self::sign_in::{Begun, SignIn, SignInSettings};
use crate::common::{auth::Identified, cookies, schemas};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "openid-connect",
    version: 0.2,
    priority: 2599,
    schema: include_str!("openid_connect.json"),
    encrypt_fields: &[
        "client_secret",
        "client_rsa_private_key",
        "dpop.private_key",
        "session.secret",
        "session.redis.password",
    ],
    phases: Phases::REWRITE.and(Phases::HEADER_FILTER),
    check: conf::check,
    remarks,
    headers: &[("introspection_addon_headers", Text::Name), ("realm", Text::Value)],
    build,
    ..PluginDef::DEFAULT
};

fn remarks(conf: &Value) -> Vec<String> {
    let mut found = schemas::remarks(conf, &["claim_schema"]);
    let storage = conf.pointer("/session/storage").map_or(Some("cookie"), Value::as_str);
    if conf.pointer("/session/redis").is_some() && storage.is_some_and(|storage| storage != "redis") {
        found.push("session.redis has no effect without session.storage redis".to_owned());
    }
    if conf.pointer("/dpop/enabled") == Some(&Value::Bool(true))
        && conf.get("bearer_only") == Some(&Value::Bool(true))
    {
        found.push("dpop has no effect with bearer_only: no user logs in".to_owned());
    }
    for scheme in ["http", "https"] {
        let shown = format!("/proxy_opts/{scheme}_proxy_authorization");
        if conf.pointer(&shown).is_some() && conf.pointer(&format!("/proxy_opts/{scheme}_proxy")).is_none() {
            found.push(format!(
                "proxy_opts.{scheme}_proxy_authorization has no effect without proxy_opts.{scheme}_proxy"
            ));
        }
    }
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let algorithm = text("token_signing_alg_values_expected").and_then(Algorithm::of);
    found.extend(text("public_key").and_then(|key| size_remark("public_key", algorithm, key)));
    found
}

/// Headers that identify the client to the upstream: a client must not set them itself.
const OUTPUT_HEADERS: [&str; 5] =
    ["X-Access-Token", "X-Userinfo", "X-ID-Token", "X-Refresh-Token", "X-Raw-ID-Token"];

fn build(value: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(making::relying_party(value)?))
}

impl Plugin for OpenidConnect {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.run(request))
    }

    fn header_filter(&self, request: &mut Request) {
        cookies::send(request);
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        self.foreseen(request)
    }
}

impl OpenidConnect {
    fn takes_tokens(&self) -> bool {
        let conf = &self.conf;
        conf.bearer_only
            || conf.introspection_endpoint.is_some()
            || conf.public_key.is_some()
            || conf.use_jwks
    }

    /// What [`OpenidConnect::run`] would do, without asking the provider.
    fn foreseen(&self, request: &mut Request) -> Foresight {
        let access_token = request.header_str("X-Access-Token");
        if self.takes_tokens() {
            match self.token_of(request, access_token) {
                Err(reply) => return Foresight::answers(&reply),
                Ok(Some(_)) => return Foresight::maybe(401, Why::Asks),
                Ok(None) => {}
            }
        }
        if self.sessions.is_none() {
            return Foresight::answers(&Reply::page(401));
        }
        // A session needs a cookie.
        match request.header("Cookie").is_some() || self.is_of_login(request) {
            true => Foresight::maybe(None, Why::Session),
            false => self.foreseen_without_session(),
        }
    }

    async fn run(&self, request: &mut Request) -> Verdict {
        let access_token = request.header_str("X-Access-Token").map(str::to_owned);
        for name in OUTPUT_HEADERS {
            request.assert_header(name, [] as [&str; 0]);
        }
        let conf = &self.conf;
        if self.takes_tokens()
            && let Some((claims, token)) = self.check_bearer(request, access_token.as_deref()).await?
        {
            self.check_authorized(&claims)?;
            request.extensions.insert(Identified);
            self.pass_access_token(request, &token);
            if conf.set_userinfo_header {
                request.head.headers.set("X-Userinfo", bearer::header_value(&claims));
            }
            return Ok(());
        }
        match &self.sessions {
            Some(sessions) => self.authenticate(sessions, request).await,
            None => Err(Box::new(Reply::page(401))),
        }
    }
}
