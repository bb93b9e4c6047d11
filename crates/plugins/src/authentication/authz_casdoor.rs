//! Logs browsers in with Casdoor, by the authorisation code flow of OAuth 2.
//!
//! ```text
//! request without a session -> 302 to Casdoor, state in the session cookie
//! callback_url?code&state   -> token request; 302 to the first URL
//! request with a session    -> the upstream, until the access token runs out
//! ```

mod session;

use std::{sync::Arc, time::Duration};

use serde::Deserialize;
use serde_json::Value;
use session::{Login, Session, Sessions};
use tidegate_clients::http::{self, ClientOptions, Endpoint, Outgoing};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, Why,
};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    clock::now_ms,
    conf::typed,
    return_url,
    service::{self, check_url, with_arguments},
    states,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "authz-casdoor",
    version: 0.1,
    priority: 2559,
    schema: include_str!("authz_casdoor.json"),
    encrypt_fields: &["client_secret"],
    phases: Phases::ACCESS,
    check,
    build,
    ..PluginDef::DEFAULT
};

/// For connecting to Casdoor, and again for its answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);
const NO_CACHE: &str = "no-cache, no-store, max-age=0";

#[derive(Deserialize)]
struct Conf {
    endpoint_addr: String,
    client_id: String,
    client_secret: String,
    callback_url: String,
}

struct AuthzCasdoor {
    conf: Conf,
    /// `None`: no request is a callback, and all are refused.
    callback_path: Option<String>,
    sessions: Sessions,
    options: ClientOptions,
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    for name in ["client_id", "client_secret"] {
        // The secret seals sessions, too: an empty one could be guessed.
        if conf.get(name).and_then(Value::as_str).is_some_and(str::is_empty) {
            return Err(format!("property \"{name}\" is empty"));
        }
    }
    check_url(conf, "endpoint_addr")?;
    check_url(conf, "callback_url")?;
    let callback = conf.get("callback_url").and_then(Value::as_str).unwrap_or_default();
    if callback.starts_with('$') {
        return Ok(());
    }
    let path = path_of(callback)
        .ok_or("property \"callback_url\" has no path, by which callbacks are recognised")?;
    // Browsers ask for another path then, or keep that part to themselves.
    match path.contains('#') || path.split('/').any(|part| part == "." || part == "..") {
        true => {
            Err("property \"callback_url\" has a fragment or dots as a step: no request has this path"
                .to_owned())
        }
        false => Ok(()),
    }
}

fn path_of(url: &str) -> Option<String> {
    let (_, rest) = url.split_once("://")?;
    rest.find('/').and_then(|at| rest.get(at..)).map(str::to_owned)
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    Ok(Arc::new(AuthzCasdoor {
        callback_path: path_of(&conf.callback_url),
        sessions: Sessions::new([
            &conf.client_id,
            &conf.client_secret,
            &conf.endpoint_addr,
            &conf.callback_url,
        ])?,
        options: ClientOptions { timeout: TIME_LIMIT, ..ClientOptions::default() },
        conf,
    }))
}

impl Plugin for AuthzCasdoor {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let session = self.sessions.load(request);
        match &self.callback_path {
            None => unavailable("callback_url has no path").into_step(),
            Some(path) if path.as_bytes() == request.path => Step::wait(self.callback(session, request)),
            Some(_) if session.as_ref().is_some_and(|session| session.is_in(now_ms())) => Step::Next,
            Some(_) => Step::from(Verdict::Err(self.begin(session.unwrap_or_default(), request))),
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        match &self.callback_path {
            Some(path) if path.as_bytes() == request.path => Foresight::answers_somehow(Why::Asks),
            _ => match Foresight::by_running(self, phase, request) {
                // A session that has just ended may have counted for the request in question.
                Foresight::Answers(_) if request.header("Cookie").is_some() => {
                    Foresight::maybe(302, Why::Session)
                }
                foreseen => foreseen,
            },
        }
    }
}

/// The reason is for the operator.
struct Unavailable;

fn unavailable(reason: &str) -> Unavailable {
    error_log::log(Level::Error, format_args!("authz-casdoor: {reason}"));
    Unavailable
}

impl Unavailable {
    fn reply(self) -> Box<Reply> {
        Box::new(Reply::page(503))
    }

    fn into_step<'a>(self) -> Step<'a> {
        Step::Reply(self.reply())
    }
}

fn refused(reason: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("authz-casdoor: {reason}"));
    Box::new(Reply::bytes(400, reason.to_owned()))
}

fn redirect(location: &str, cookies: Vec<String>) -> Box<Reply> {
    let reply = Reply::page(302).header("Location", location).header("Cache-Control", NO_CACHE);
    Box::new(cookies.into_iter().fold(reply, |reply, cookie| reply.header("Set-Cookie", cookie)))
}

impl AuthzCasdoor {
    /// Sends the browser to Casdoor.
    fn begin(&self, mut session: Session, request: &Request) -> Box<Reply> {
        let login = Login::new(return_url::of(request.head.target()));
        let location = with_arguments(
            &format!("{}/login/oauth/authorize", self.conf.endpoint_addr),
            [
                ("client_id", self.conf.client_id.as_str()),
                ("redirect_uri", &self.conf.callback_url),
                ("response_type", "code"),
                ("scope", "read"),
                ("state", &login.state),
            ],
        );
        session.until_ms = None;
        session.add(login);
        match self.sessions.save(&session, request) {
            Ok(cookies) => redirect(&location, cookies),
            Err(reason) => unavailable(&reason).reply(),
        }
    }

    /// The browser is back from Casdoor.
    async fn callback(&self, session: Option<Session>, request: &mut Request) -> Verdict {
        let Some(mut session) = session else { return Err(unavailable("no session found").reply()) };
        if session.logins.is_empty() {
            return Err(unavailable("no state found in session").reply());
        }
        let argument =
            |name: &str| request.arg(name).map(|value| String::from_utf8_lossy(&value).into_owned());
        let code = argument("code").filter(|code| !code.is_empty());
        let (Some(code), Some(state)) = (code, argument("state")) else {
            return Err(refused("failed when accessing token. Invalid code or state"));
        };
        let now = now_ms();
        let Some(login) = session.take(&state, now) else { return Err(refused("invalid state")) };
        match states::claim(&login.state, login.ends_ms(), now) {
            Ok(true) => {}
            Ok(false) => return Err(refused("invalid state")),
            Err(reason) => return Err(unavailable(&reason).reply()),
        }
        let lifetime_ms = match self.token_lifetime(&code).await {
            Ok(lifetime) => lifetime,
            Err(reason) => {
                states::release(&login.state);
                return Err(unavailable(&reason).reply());
            }
        };
        session.until_ms = Some(now_ms().saturating_add(lifetime_ms));
        match self.sessions.save(&session, request) {
            Ok(cookies) => Err(redirect(&login.original_url, cookies)),
            Err(reason) => Err(unavailable(&reason).reply()),
        }
    }

    /// Exchanges the code; for how many milliseconds the access token counts.
    async fn token_lifetime(&self, code: &str) -> Result<i64, String> {
        let url = format!("{}/api/login/oauth/access_token", self.conf.endpoint_addr);
        let form = service::arguments([
            ("code", code),
            ("grant_type", "authorization_code"),
            ("client_id", &self.conf.client_id),
            ("client_secret", &self.conf.client_secret),
        ]);
        let outgoing = Outgoing::post(Endpoint::parse(&url)?, "application/x-www-form-urlencoded", form);
        let answer = http::send(outgoing, &self.options).await?;
        let token = service::json(&url, &answer).await?;
        let has_token =
            token.get("access_token").and_then(Value::as_str).is_some_and(|token| !token.is_empty());
        if answer.status != 200 || !has_token {
            return Err("failed when accessing token: no access_token contained".to_owned());
        }
        let seconds = match token.get("expires_in") {
            Some(Value::String(text)) => text.trim().parse().ok(),
            other => other.and_then(Value::as_f64),
        };
        // With 0, Casdoor says that the token is not valid.
        let seconds = seconds.filter(|seconds: &f64| *seconds > 0.0);
        let seconds = seconds.ok_or("failed when accessing token: invalid access_token")?;
        Ok((seconds * 1000.0) as i64)
    }
}
