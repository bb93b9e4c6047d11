//! OpenID Connect (Core 1.0): checks access tokens that requests bring, or logs browsers in with the code flow.
//!
//! Not there: front- and back-channel logout.

mod bearer;
mod client;
mod conf;
mod dpop;
mod ended;
mod flow;
mod id_token;
mod provider;
mod relying_party;
mod session;

use std::{sync::Arc, time::Duration};

use client::Client;
use conf::Conf;
use dpop::Dpop;
use parking_lot::Mutex;
use provider::Provider;
use relying_party::OpenidConnect;
use serde_json::Value;
use tidegate_clients::{
    http::{ClientOptions, TlsWanted},
    jws_sign::SigningKey,
};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{BuildContext, Phases, Plugin, PluginDef, Reply, Request, Step, Verdict};

use crate::common::{auth::Identified, conf::typed, cookies, schemas, token_cache};

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
    found
}

/// Headers that identify the client to the upstream: a client must not set them itself.
const OUTPUT_HEADERS: [&str; 5] =
    ["X-Access-Token", "X-Userinfo", "X-ID-Token", "X-Refresh-Token", "X-Raw-ID-Token"];

fn build(value: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(value)?;
    // Some configurations hold milliseconds already.
    let milliseconds = conf.timeout >= 1000 && conf.timeout.is_multiple_of(1000);
    let timeout =
        if milliseconds { Duration::from_millis(conf.timeout) } else { Duration::from_secs(conf.timeout) };
    let options = ClientOptions {
        timeout,
        tls: TlsWanted { verify: conf.ssl_verify, client: None },
        proxies: conf.proxy_opts.as_ref().map(conf::ProxyOpts::proxies).transpose()?.map(Arc::new),
        ..ClientOptions::default()
    };
    let algorithm = |hmac| client::assertion_algorithm(conf.client_jwt_assertion_alg.as_deref(), hmac);
    let id = || conf.client_rsa_private_key_id.clone();
    let private_key = conf.client_rsa_private_key.as_ref();
    let client = Client {
        id: conf.client_id.clone(),
        secret: conf.client_secret.clone(),
        // An unusable key only matters where something is signed with it.
        private_key: private_key.and_then(|key| SigningKey::from_pem(algorithm(false), key, id()).ok()),
        secret_key: conf
            .client_secret
            .as_ref()
            .and_then(|secret| SigningKey::from_secret(algorithm(true), secret).ok()),
        assertion_lifetime_seconds: conf.client_jwt_assertion_expires_in,
        assertion_audience: conf.client_jwt_assertion_audience.clone(),
    };
    let claim_schema = |schema| schemas::compile("claim_schema", schema);
    let store = |session: &conf::SessionConf| session::Store::new(session, &conf.discovery, &conf.client_id);
    Ok(Arc::new(OpenidConnect {
        provider: Provider {
            discovery_url: conf.discovery.clone(),
            options,
            keys_lifetime: Duration::from_secs(u64::try_from(conf.jwk_expires_in).unwrap_or_default()),
        },
        client,
        dpop: conf.dpop.as_ref().filter(|dpop| dpop.enabled).map(Dpop::new).transpose()?,
        sessions: conf.session.as_ref().filter(|_| !conf.bearer_only).map(store).transpose()?,
        claim_schema: conf.claim_schema.as_ref().map(claim_schema).transpose()?,
        public_keys: conf.public_key.as_deref().map(bearer::public_keys).unwrap_or_default(),
        serial: token_cache::next_serial(),
        introspections: Mutex::default(),
        conf,
    }))
}

impl Plugin for OpenidConnect {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        Step::wait(self.run(request))
    }

    fn header_filter(&self, request: &mut Request) {
        cookies::send(request);
    }
}

impl OpenidConnect {
    async fn run(&self, request: &mut Request) -> Verdict {
        let access_token = request.header_str("X-Access-Token").map(str::to_owned);
        for name in OUTPUT_HEADERS {
            request.assert_header(name, [] as [&str; 0]);
        }
        let conf = &self.conf;
        let takes_tokens = conf.bearer_only
            || conf.introspection_endpoint.is_some()
            || conf.public_key.is_some()
            || conf.use_jwks;
        if takes_tokens
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
