//! Signing in with the identity provider: away to it, and back.
//!
//! ```text
//! POST /sessions/oidc {redirect_uri} -> location, and a cookie; the page goes there
//! redirect_uri?code&state            -> a page of the console, which is of this origin again
//! POST /sessions {oidc: {code, state, iss}} with that cookie -> a session
//! ```
//!
//! The provider's answer is posted by the console's own page, so that no request of another origin is ever let in.

use std::time::Instant;

use serde_json::{Value, json};
use tidegate_telemetry::{
    error_log::{Level, log},
    limiter::Limiter,
};

use super::body::read_body;
use crate::{
    admin_api::{AdminApi, PREFIX},
    caller::{Caller, Origin},
    message::{Head, Request, RequestBody, Response},
    oidc::Oidc,
    sessions::{Person, logins},
};

/// Of one sort in a minute, in the error log.
const MOST_LINES: u64 = 20;

/// What the provider gave the browser to bring.
pub(super) struct ProviderAnswer {
    code: String,
    state: String,
    issuer: Option<String>,
}

impl ProviderAnswer {
    pub(super) fn read(answer: &Value) -> Result<ProviderAnswer, Response> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let known = |name: &String| matches!(name.as_str(), "code" | "state" | "iss");
        let is_known = answer.as_object().is_some_and(|fields| fields.keys().all(known));
        match (text("code"), text("state")) {
            (Some(code), Some(state)) if is_known => Ok(ProviderAnswer { code, state, issuer: text("iss") }),
            _ => Err(Response::error(
                400,
                "send {\"oidc\": {\"code\": \"...\", \"state\": \"...\", \"iss\": \"...\"}}",
            )),
        }
    }
}

impl AdminApi {
    fn oidc(&self) -> Result<&Oidc, Response> {
        let missing = || {
            let message = "this gateway has no identity provider; set deployment.admin.oidc in config.yaml";
            Response::error(404, message)
        };
        self.settings.oidc.as_ref().ok_or_else(missing)
    }

    /// Where the browser finds the provider.
    pub(super) async fn leave_for_provider(&self, request: &Request) -> Result<Response, Response> {
        self.check_own_page(request)?;
        let oidc = self.oidc()?;
        let redirect_uri = redirect_uri(request)?;
        if !oidc.redirect_uris.contains(&redirect_uri) {
            let body = json!({
                "error_msg": format!("{redirect_uri} is not one of deployment.admin.oidc.redirect_uris"),
                "remedy": "open the console at one of these addresses, or add this one there and at the provider",
            });
            return Err(Response::json(400, &body));
        }
        let (location, login) =
            oidc.provider.begin(redirect_uri).await.map_err(|reason| unusable(oidc, &reason))?;
        let token = self.sessions.logins.begin(&login, Instant::now());
        let token = token.map_err(|reason| Response::error(503, &reason))?;
        let cookie = self.login_cookie(&token, logins::LONGEST.as_secs());
        Ok(Response::json(201, &json!({"location": location})).with_header("Set-Cookie", cookie))
    }

    /// Who came back with the provider's answer.
    pub(super) async fn by_provider(
        &self,
        request: &Request,
        answer: &ProviderAnswer,
    ) -> Result<Person, Response> {
        let oidc = self.oidc()?;
        // Before the login is taken: who is sent away here can come again with the same answer.
        let _exchange = self.sessions.exchanges.begin(request.peer).ok_or_else(|| {
            let message = "too many people are signing in at this moment; send the same again";
            Response::error(503, message).with_header("Retry-After", "1")
        })?;
        let token = cookie_of(request, &self.login_cookie_name()).unwrap_or_default();
        let login = self.sessions.logins.take(token, &answer.state, Instant::now());
        let login = login.ok_or_else(|| {
            let reason = "no sign-in of this browser is under way with that state: it took too long, was used before, or \
                          began in another window";
            refused(401, oidc, reason, "begin again")
        })?;
        let finished = oidc.provider.finish(login, answer.code.clone(), answer.issuer.clone()).await;
        let claims = finished.map_err(|reason| {
            log_failed(oidc, &reason);
            refused(401, oidc, &reason, "begin again; the error log has this line, too")
        })?;
        let caller = oidc.caller(&claims).map_err(|reason| {
            static LINES: Limiter = Limiter::new(MOST_LINES, 60_000);
            if let Some(others) = LINES.pass() {
                log(
                    Level::Warn,
                    format_args!(
                        "signing in to the console with {} refused: {reason}{}",
                        oidc.display_name,
                        unwritten(others)
                    ),
                );
            }
            let subject = claims.get(&oidc.name_claim).or_else(|| claims.get("sub")).and_then(Value::as_str);
            let subject =
                subject.map(|subject| format!("oidc:{}", subject.chars().take(128).collect::<String>()));
            let remedy =
                "ask for a group that deployment.admin.oidc.roles names, or have one of yours added there";
            refused(403, oidc, &reason, remedy).of_signer(subject.as_deref(), None)
        })?;
        Ok(Person { caller, stamp: String::new(), longest: oidc.session_lifetime })
    }

    /// Where a person who signed out ends the provider's session, too.
    pub(super) async fn sign_out_of_provider(&self, caller: Option<&Caller>) -> Option<String> {
        let oidc = self.settings.oidc.as_ref().filter(|oidc| oidc.sign_out_at_provider)?;
        caller.filter(|caller| caller.origin == Origin::Provider)?;
        oidc.provider.sign_out().await.unwrap_or_else(|reason| {
            log(Level::Warn, format_args!("signing out at {} failed: {reason}", oidc.display_name));
            None
        })
    }

    fn login_cookie_name(&self) -> String {
        format!("{}_login", self.settings.cookie)
    }

    /// For the requests that sign in, and no others.
    pub(super) fn login_cookie(&self, token: &str, seconds: u64) -> String {
        let (name, secure) = (self.login_cookie_name(), if self.settings.tls { "; Secure" } else { "" });
        format!(
            "{name}={token}; HttpOnly; SameSite=Strict; Path={PREFIX}/sessions{secure}; Max-Age={seconds}"
        )
    }
}

/// Of this very name: [`Head::cookie`] takes others for it, as nginx does.
pub(super) fn cookie_of<'a>(head: &'a Head, wanted: &str) -> Option<&'a str> {
    let cookies = head.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("cookie"));
    let mut pairs =
        cookies.flat_map(|(_, value)| value.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, value)| *name == wanted && !value.is_empty()).map(|(_, value)| value)
}

fn redirect_uri(request: &Request) -> Result<String, Response> {
    let refuse = || Response::error(400, "send {\"redirect_uri\": \"https://HOST:PORT/ui/oidc\"}");
    if let RequestBody::TooLarge(_) = request.body {
        return Err(refuse());
    }
    let body = read_body(request)?.unwrap_or_default();
    let uri = body.get("redirect_uri").and_then(Value::as_str);
    let is_all = body.as_object().is_some_and(|fields| fields.len() == 1);
    uri.filter(|_| is_all).map(str::to_owned).ok_or_else(refuse)
}

/// Anyone can make such lines.
fn log_failed(oidc: &Oidc, reason: &str) {
    static LINES: Limiter = Limiter::new(MOST_LINES, 60_000);
    if let Some(others) = LINES.pass() {
        log(
            Level::Error,
            format_args!(
                "signing in to the console with {} failed: {reason}{}",
                oidc.display_name,
                unwritten(others)
            ),
        );
    }
}

fn unwritten(others: u64) -> String {
    if others == 0 { String::new() } else { format!("; {others} more such lines since the previous line") }
}

fn unusable(oidc: &Oidc, reason: &str) -> Response {
    log_failed(oidc, reason);
    let body = json!({
        "error_msg": format!("{} cannot be used", oidc.display_name),
        "description": reason,
        "remedy": "correct deployment.admin.oidc or the provider; an admin key or a password still signs in",
    });
    Response::json(503, &body)
}

fn refused(status: u16, oidc: &Oidc, reason: &str, remedy: &str) -> Response {
    let body = json!({
        "error_msg": format!("signing in with {} was refused", oidc.display_name),
        "description": reason,
        "remedy": remedy,
    });
    Response::json(status, &body)
}
