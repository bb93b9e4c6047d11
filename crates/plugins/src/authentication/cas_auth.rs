//! Logs browsers in with a CAS server (protocol 2 and 3): tickets, sessions of this process, single logout.
//!
//! ```text
//! request without a session   -> 302 to IDP/login, the URL in a sealed cookie
//! callback?ticket             -> IDP/serviceValidate; session cookie, 302 to the first URL
//! request with a session      -> the upstream
//! POST callback, SessionIndex -> the session of that ticket ends
//! logout_uri                  -> session gone; 302 to IDP/logout
//! ```

mod protocol;
mod sessions;

use std::{sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sessions::Sessions;
use tidegate_clients::http::{self, ClientOptions, Endpoint, Outgoing};
use tidegate_model::schema::is_secret_reference;
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Why,
    aside::{self, Undone},
};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    clock::now_ms,
    conf::typed,
    return_url,
    sealed::SealingKey,
    service::{check_url, with_arguments},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "cas-auth",
    version: 0.1,
    priority: 2597,
    schema: include_str!("cas_auth.json"),
    encrypt_fields: &["cookie.secret"],
    phases: Phases::ACCESS,
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

/// Keeps the URL that a browser wanted while it logs in.
const REQUEST_COOKIE: &str = "CAS_REQUEST_URI";
/// A login that has taken longer begins again.
const LONGEST_LOGIN_MS: i64 = 3_600_000;
/// For connecting to the CAS server, and again for its answer.
const TIME_LIMIT: Duration = Duration::from_secs(10);

#[derive(Deserialize)]
struct Conf {
    max_req_body_size: u64,
    idp_uri: String,
    cas_callback_uri: String,
    logout_uri: String,
    cookie: CookieConf,
}

#[derive(Deserialize)]
struct CookieConf {
    secret: String,
    secure: bool,
    samesite: String,
}

struct CasAuth {
    conf: Conf,
    callback_path: String,
    sessions: Sessions,
    key: SealingKey,
    /// Of cookies.
    attributes: String,
    options: ClientOptions,
}

/// What the browser keeps while it logs in.
#[derive(Serialize, Deserialize)]
struct Login {
    url: String,
    begun_ms: i64,
}

fn is_absolute(callback: &str) -> bool {
    callback.starts_with("http://") || callback.starts_with("https://")
}

/// Without query and fragment; of an absolute URL the path alone.
fn path_of(callback: &str) -> String {
    if !is_absolute(callback) {
        return callback.to_owned();
    }
    let rest = callback.split_once("://").map_or("", |(_, rest)| rest);
    let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/");
    path.split(['?', '#']).next().unwrap_or("/").to_owned()
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    let of_cookie = |name: &str| conf.pointer(&format!("/cookie/{name}"));
    let samesite = of_cookie("samesite").and_then(Value::as_str);
    if samesite == Some("None") && of_cookie("secure") == Some(&Value::Bool(false)) {
        return Err("cookie.secure must be true when cookie.samesite is \"None\"".to_owned());
    }
    check_url(conf, "idp_uri")?;
    let text = |name: &str| conf.get(name).and_then(Value::as_str).unwrap_or_default();
    if text("idp_uri").contains(['?', '#']) {
        return Err("property \"idp_uri\" has a query or fragment: paths are added to it".to_owned());
    }
    check_path("logout_uri", text("logout_uri"))?;
    match is_absolute(text("cas_callback_uri")) {
        true => check_url(conf, "cas_callback_uri"),
        false => check_path("cas_callback_uri", text("cas_callback_uri")),
    }
}

/// Requests are compared with it.
fn check_path(field: &str, path: &str) -> Result<(), String> {
    match is_secret_reference(path) || path.starts_with('/') && !path.contains(['?', '#']) {
        true => Ok(()),
        false => {
            Err(format!("property \"{field}\" is not a path: it begins with / and has no query or fragment"))
        }
    }
}

fn remarks(conf: &Value) -> Vec<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut found = Vec::new();
    if !is_absolute(text("cas_callback_uri")) {
        found.push("cas_callback_uri is a path: the service URL that the CAS server gets has the host that a client names".to_owned());
    }
    if path_of(text("cas_callback_uri")) == text("logout_uri") {
        found.push("the path of cas_callback_uri equals logout_uri: no client can log in".to_owned());
    }
    found
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let secure = if conf.cookie.secure { "; Secure" } else { "" };
    let context = serde_json::to_vec(&[REQUEST_COOKIE, &conf.idp_uri, &conf.cas_callback_uri]);
    let context = context.map_err(|error| error.to_string())?;
    Ok(Arc::new(CasAuth {
        callback_path: path_of(&conf.cas_callback_uri),
        sessions: Sessions::new(&conf.cookie.secret, &conf.idp_uri, &conf.cas_callback_uri),
        key: SealingKey::new("tidegate cas-auth login v1", &[&conf.cookie.secret], context)?,
        attributes: format!("; Path=/; HttpOnly{secure}; SameSite={}", conf.cookie.samesite),
        options: ClientOptions { timeout: TIME_LIMIT, ..ClientOptions::default() },
        conf,
    }))
}

/// What a request is for.
enum Errand {
    Logout,
    SingleLogout,
    /// It comes with a session, valid or not.
    Session,
    /// It comes with a ticket.
    Callback(Vec<u8>),
    Begin,
}

impl CasAuth {
    fn errand(&self, request: &Request) -> Errand {
        let is_at = |path: &str| request.path == path.as_bytes();
        match request.head.method.as_bytes() {
            b"GET" if is_at(&self.conf.logout_uri) => return Errand::Logout,
            b"POST" if is_at(&self.callback_path) => return Errand::SingleLogout,
            _ => {}
        }
        if request.cookie(self.sessions.cookie()).is_some() {
            return Errand::Session;
        }
        let ticket = request.arg("ticket").filter(|_| is_at(&self.callback_path));
        ticket.map_or(Errand::Begin, Errand::Callback)
    }
}

impl Plugin for CasAuth {
    fn access<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.errand(request) {
            Errand::Logout => Step::Reply(self.logout(request)),
            Errand::SingleLogout => Step::wait(async move { Err(self.single_logout(request).await) }),
            Errand::Session => {
                let session = request.cookie(self.sessions.cookie()).unwrap_or_default();
                if self.sessions.renew(session, now_ms()) {
                    return Step::Next;
                }
                Step::Reply(self.begin(request, Some(self.removal(self.sessions.cookie()))))
            }
            Errand::Callback(ticket) => Step::wait(async move { Err(self.callback(request, &ticket).await) }),
            Errand::Begin => Step::Reply(self.begin(request, None)),
        }
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match self.errand(request) {
            Errand::Logout => Foresight::answers_somehow(Why::Session),
            Errand::SingleLogout | Errand::Callback(_) => Foresight::answers_somehow(Why::Asks),
            Errand::Session => Foresight::maybe(302, Why::Session),
            Errand::Begin => Foresight::answers(&self.begin(request, None)),
        }
    }
}

fn refused(status: u16, message: &str) -> Box<Reply> {
    Box::new(Reply::message(status, message))
}

fn failed(reason: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("cas-auth: {reason}"));
    Box::new(Reply::page(503))
}

fn redirect(location: &str, cookies: impl IntoIterator<Item = String>) -> Box<Reply> {
    let reply = Reply::page(302)
        .header("Location", location)
        .header("Cache-Control", "no-cache, no-store, max-age=0");
    Box::new(cookies.into_iter().fold(reply, |reply, cookie| reply.header("Set-Cookie", cookie)))
}

impl CasAuth {
    fn cookie(&self, name: &str, value: &str) -> String {
        format!("{name}={value}{}", self.attributes)
    }

    fn removal(&self, name: &str) -> String {
        format!("{name}=deleted; Max-Age=0{}", self.attributes)
    }

    /// What the CAS server knows this gateway by, and where it sends browsers back to.
    fn service(&self, request: &Request) -> String {
        let callback = &self.conf.cas_callback_uri;
        if is_absolute(callback) {
            return callback.clone();
        }
        let scheme = if request.https { "https" } else { "http" };
        let port = request.connection.local.port();
        format!("{scheme}://{}:{port}{callback}", String::from_utf8_lossy(&request.host))
    }

    /// Sends the browser to the CAS server.
    fn begin(&self, request: &Request, removal: Option<String>) -> Box<Reply> {
        let login = Login { url: return_url::of(request.head.target()), begun_ms: now_ms() };
        let sealed = match self.key.seal(&login, "") {
            Ok(sealed) => sealed,
            Err(reason) => return failed(&reason),
        };
        let service = self.service(request);
        let location =
            with_arguments(&format!("{}/login", self.conf.idp_uri), [("service", service.as_str())]);
        redirect(&location, removal.into_iter().chain([self.cookie(REQUEST_COOKIE, &sealed)]))
    }

    /// The browser is back with a ticket. Only one that began a login here may bring one, and each ticket makes one session.
    async fn callback(&self, request: &mut Request, ticket: &[u8]) -> Box<Reply> {
        let begun = request.cookie(REQUEST_COOKIE).and_then(|sealed| self.key.open::<Login>(sealed, ""));
        let begun = begun.filter(|login| now_ms().saturating_sub(login.begun_ms) < LONGEST_LOGIN_MS);
        let Some(login) = begun else {
            error_log::log(
                Level::Warn,
                format_args!("cas-auth: callback rejected, missing or invalid initiation cookie"),
            );
            return refused(401, "invalid callback state");
        };
        let invalid = |reason: &str| {
            error_log::log(Level::Warn, format_args!("cas-auth: ticket rejected: {reason}"));
            refused(401, "invalid ticket")
        };
        let Ok(ticket) = std::str::from_utf8(ticket) else { return invalid("it is not a text") };
        if let Err(reason) = self.validate(request, ticket).await {
            return invalid(&reason);
        }
        match self.sessions.begin(ticket, now_ms()) {
            Ok(session) => {
                let cookies = [self.cookie(self.sessions.cookie(), &session), self.removal(REQUEST_COOKIE)];
                redirect(&login.url, cookies)
            }
            Err(reason) => invalid(reason),
        }
    }

    /// Asks the CAS server whose ticket it is.
    async fn validate(&self, request: &Request, ticket: &str) -> Result<(), String> {
        let service = self.service(request);
        let url = format!("{}/serviceValidate", self.conf.idp_uri);
        let url = with_arguments(&url, [("service", service.as_str()), ("ticket", ticket)]);
        let answer = http::send(Outgoing::get(Endpoint::parse(&url)?), &self.options).await?;
        if answer.status != 200 {
            return Err(format!("serviceValidate answered {}", answer.status));
        }
        let text = String::from_utf8(answer.body.to_vec()).map_err(|_| "serviceValidate answered no text")?;
        let user = aside::run_by_size(request.remote_addr, text.len(), move || protocol::user(&text)).await;
        user.map_err(|Undone| "the answer was not read")??;
        Ok(())
    }

    fn logout(&self, request: &Request) -> Box<Reply> {
        let Some(session) = request.cookie(self.sessions.cookie()) else {
            return Box::new(Reply::page(401));
        };
        self.sessions.end(session);
        redirect(&format!("{}/logout", self.conf.idp_uri), [self.removal(self.sessions.cookie())])
    }

    /// A logout request of the CAS server, which never goes upstream.
    async fn single_logout(&self, request: &mut Request) -> Box<Reply> {
        let limit = usize::try_from(self.conf.max_req_body_size).unwrap_or(usize::MAX);
        let body = match request.collect_body(limit).await {
            Ok(body) => body,
            Err(reply) if reply.status == 413 => bytes::Bytes::new(),
            Err(reply) => return reply,
        };
        let tickets = aside::run_by_size(request.remote_addr, body.len(), move || protocol::tickets(&body))
            .await
            .unwrap_or_default();
        if tickets.is_empty() {
            return refused(400, "invalid logout request from IdP, no ticket");
        }
        for ticket in tickets {
            self.sessions.end_ticket(&ticket);
        }
        Box::new(Reply::page(200))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_of_callbacks() {
        for (callback, path) in [
            ("/cb", "/cb"),
            ("https://a.test/cb?x=1#y", "/cb"),
            ("http://a.test:8080/a/cb", "/a/cb"),
            ("https://a.test", "/"),
        ] {
            assert_eq!(path_of(callback), path, "{callback}");
        }
    }

    #[test]
    fn cookies_of_other_sites_are_secure() {
        let conf = |secure: bool| {
            json!({"idp_uri": "https://a.test/cas", "cas_callback_uri": "/cb", "logout_uri": "/out",
                   "cookie": {"secret": "s", "samesite": "None", "secure": secure}})
        };
        assert_eq!(
            check(&conf(false), SchemaKind::Plugin).err().as_deref(),
            Some("cookie.secure must be true when cookie.samesite is \"None\"")
        );
        assert_eq!(check(&conf(true), SchemaKind::Plugin), Ok(()));
    }

    #[test]
    fn addresses_that_can_work() {
        let conf = |name: &str, value: &str| {
            let mut conf =
                json!({"idp_uri": "https://a.test/cas", "cas_callback_uri": "/cb", "logout_uri": "/out"});
            conf[name] = value.into();
            conf
        };
        for (name, value, is_fine) in [
            ("cas_callback_uri", "/cb", true),
            ("cas_callback_uri", "https://a.test/cb?x=1", true),
            ("cas_callback_uri", "$env://CALLBACK", true),
            ("cas_callback_uri", "", false),
            ("cas_callback_uri", "app/cb", false),
            ("cas_callback_uri", "/cb?x=1", false),
            ("logout_uri", "", false),
            ("logout_uri", "out", false),
            ("logout_uri", "/out#x", false),
            ("idp_uri", "https://a.test/cas?a=b", false),
        ] {
            assert_eq!(check(&conf(name, value), SchemaKind::Plugin).is_ok(), is_fine, "{name} {value:?}");
        }
        let never = "the path of cas_callback_uri equals logout_uri: no client can log in";
        let found = remarks(&conf("cas_callback_uri", "https://a.test/out?x=1"));
        assert_eq!(found, [never]);
        assert!(remarks(&conf("logout_uri", "/cb")).contains(&never.to_owned()));
    }
}
