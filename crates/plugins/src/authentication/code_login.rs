//! What feishu-auth and dingtalk-auth share: a code that the client brings, a user whom the provider names for it, and a session.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tidegate_clients::{
    http::{self, ClientOptions, Endpoint, Incoming, Outgoing, TlsWanted},
    nginx_base64,
};
use tidegate_plugin_api::{Foresight, Reply, Request, Verdict, Why};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    auth::{ExternalUser, Identified},
    clock::now_ms,
    conf::typed,
    cookies::{self, Cookie},
    sealed::SealingKey,
    service::check_url,
};

/// What their configurations have alike.
#[derive(Deserialize)]
struct Conf {
    code_header: String,
    code_query: String,
    userinfo_url: String,
    access_token_url: String,
    set_userinfo_header: bool,
    redirect_uri: String,
    timeout: u64,
    ssl_verify: bool,
    secret: String,
    #[serde(default)]
    secret_fallbacks: Vec<String>,
    cookie_expires_in: i64,
}

/// A provider, and the sessions of users it has named.
pub(super) struct CodeLogin {
    name: &'static str,
    conf: Conf,
    cookie: Cookie,
    key: SealingKey,
    options: ClientOptions,
}

/// What the browser keeps, sealed.
#[derive(Serialize, Deserialize)]
struct Session {
    user: Value,
    until_ms: i64,
}

pub(super) fn check(conf: &Value) -> Result<(), String> {
    check_url(conf, "userinfo_url")?;
    check_url(conf, "access_token_url")?;
    let is_empty = |name: &str| conf.get(name).and_then(Value::as_str) == Some("");
    if let Some(name) = ["redirect_uri", "code_query", "code_header"].into_iter().find(|name| is_empty(name))
    {
        return Err(format!("property \"{name}\" must not be empty"));
    }
    let is_low = |name: &str| conf.get(name).and_then(Value::as_i64).is_some_and(|value| value < 1);
    match ["timeout", "cookie_expires_in"].into_iter().find(|name| is_low(name)) {
        Some(name) => Err(format!("property \"{name}\" must be at least 1")),
        None => Ok(()),
    }
}

/// What a request brings.
enum Arrival {
    With(Session),
    WithCode(Vec<u8>),
    Without,
}

impl CodeLogin {
    /// `app`: its id at the provider. A session is bound to it and to the provider's addresses.
    pub(super) fn new(
        name: &'static str,
        cookie: &str,
        app: &str,
        conf: &Value,
    ) -> Result<CodeLogin, String> {
        let conf: Conf = typed(conf)?;
        let place = json!([cookie, app, conf.access_token_url, conf.userinfo_url]).to_string();
        let mut secrets = vec![conf.secret.as_str()];
        secrets.extend(conf.secret_fallbacks.iter().map(String::as_str));
        let key = SealingKey::new(&format!("tidegate {name} session v1"), &secrets, place.into_bytes())?;
        Ok(CodeLogin {
            name,
            cookie: Cookie {
                name: cookie.to_owned(),
                attributes: "; Path=/; SameSite=Lax; HttpOnly".to_owned(),
                secure: None,
            },
            key,
            options: ClientOptions {
                timeout: Duration::from_millis(conf.timeout),
                tls: TlsWanted { verify: conf.ssl_verify, client: None },
                ..ClientOptions::default()
            },
            conf,
        })
    }

    pub(super) fn token_url(&self) -> &str {
        &self.conf.access_token_url
    }

    pub(super) fn user_url(&self) -> &str {
        &self.conf.userinfo_url
    }

    pub(super) fn log(&self, level: Level, reason: &str) {
        error_log::log(level, format_args!("{}: {reason}", self.name));
    }

    pub(super) async fn send(&self, outgoing: Outgoing) -> Result<Incoming, String> {
        Ok(http::send(outgoing, &self.options).await?)
    }

    pub(super) async fn post(&self, url: &str, body: &Value) -> Result<Incoming, String> {
        self.send(Outgoing::post(Endpoint::parse(url)?, "application/json", body.to_string())).await
    }

    /// What [`CodeLogin::run`] would do, without asking the provider.
    pub(super) fn foreseen(&self, request: &mut Request) -> Foresight {
        match self.arrive(request) {
            Arrival::With(session) => {
                self.let_in(request, session.user);
                Foresight::Continues
            }
            Arrival::WithCode(_) => Foresight::maybe(None, Why::Asks),
            Arrival::Without => Foresight::answers(&self.sign_in()),
        }
    }

    fn arrive(&self, request: &mut Request) -> Arrival {
        // Only the provider says who the user is.
        request.assert_header("X-Userinfo", [] as [&str; 0]);
        let now = now_ms();
        let session: Option<Session> = self.key.open(&self.cookie.read(request), "");
        if let Some(session) = session.filter(|session| now < session.until_ms) {
            return Arrival::With(session);
        }
        let is_there = |code: &Vec<u8>| !code.is_empty();
        let code = request.header(&self.conf.code_header).map(<[u8]>::to_vec).filter(is_there);
        let code = code.or_else(|| request.arg(&self.conf.code_query).filter(is_there));
        code.map_or(Arrival::Without, Arrival::WithCode)
    }

    fn sign_in(&self) -> Reply {
        Reply::page(302).header("Location", &self.conf.redirect_uri)
    }

    fn let_in(&self, request: &mut Request, user: Value) {
        if self.conf.set_userinfo_header {
            request.head.headers.set("X-Userinfo", nginx_base64::encode(user.to_string()));
        }
        request.extensions.insert(Identified);
        request.extensions.insert(ExternalUser(user));
    }

    /// Lets a request with a session through, or one with a code for which `user` names a user.
    pub(super) async fn run(
        &self,
        request: &mut Request,
        user: impl AsyncFnOnce(&str) -> Result<Value, Box<Reply>>,
    ) -> Verdict {
        let user = match self.arrive(request) {
            Arrival::With(session) => session.user,
            Arrival::Without => return Err(Box::new(self.sign_in())),
            Arrival::WithCode(code) => {
                let user = user(&String::from_utf8_lossy(&code)).await?;
                let until_ms = now_ms().saturating_add(self.conf.cookie_expires_in.saturating_mul(1000));
                let session = Session { user, until_ms };
                let lines =
                    self.key.seal(&session, "").ok().and_then(|text| self.cookie.lines(&text, request));
                let Some(lines) = lines else {
                    self.log(Level::Error, "the session is too large for cookies");
                    return Err(Box::new(Reply::message(500, "Failed to save session")));
                };
                cookies::set(request, lines);
                session.user
            }
        };
        self.let_in(request, user);
        Ok(())
    }
}
