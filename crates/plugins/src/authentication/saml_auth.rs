//! Logs browsers in with an identity provider of SAML 2.0, with single logout.
//!
//! ```text
//! request without a session       -> 302 to idp_uri with a signed AuthnRequest; state and id of it in the session cookie
//! login_callback_uri, response    -> session; 302 to the first URL
//! request with a session          -> the upstream
//! logout_uri                      -> session gone; 302 to idp_uri with a signed LogoutRequest
//! logout_callback_uri, response   -> 302 to logout_redirect_uri
//! logout_callback_uri, request    -> session gone; 302 to idp_uri with a signed LogoutResponse
//! ```

mod binding;
mod canonical;
mod message;
mod session;
mod signature;
mod tree;

use std::sync::Arc;

use binding::Brought;
use chrono::{SecondsFormat, Utc};
use message::{Expected, Logout, Refusal};
use quick_xml::escape::escape;
use serde::Deserialize;
use serde_json::{Value, json};
use session::{Login, Session, Sessions, User, random_id};
use signature::ProviderKey;
use tidegate_clients::{
    jws::{Algorithm, VerifyingKey},
    jws_sign::SigningKey,
    rsa_size::size_remark,
};
use tidegate_model::{header_text::Text, schema::is_secret_reference};
use tidegate_plugin_api::{
    BuildContext, Foresight, Phases, Plugin, PluginDef, Reply, Request, SchemaKind, Step, Verdict, Why, aside,
};
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    auth::{ExternalUser, Identified},
    clock::now_ms,
    conf::typed,
    return_url,
    service::check_url,
    states,
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "saml-auth",
    version: 0.1,
    priority: 2598,
    schema: include_str!("saml_auth.json"),
    encrypt_fields: &["sp_private_key", "secret", "secret_fallbacks"],
    phases: Phases::REWRITE,
    headers: &[("logout_redirect_uri", Text::Value)],
    check,
    remarks,
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    sp_issuer: String,
    idp_uri: String,
    idp_cert: String,
    login_callback_uri: String,
    logout_uri: String,
    logout_callback_uri: String,
    logout_redirect_uri: String,
    sp_cert: String,
    sp_private_key: String,
    auth_protocol_binding_method: String,
    secret: String,
    #[serde(default)]
    secret_fallbacks: Vec<String>,
}

struct SamlAuth {
    conf: Conf,
    login_callback_path: String,
    logout_path: String,
    logout_callback_path: String,
    provider: Arc<ProviderKey>,
    key: SigningKey,
    sessions: Sessions,
}

fn is_absolute(uri: &str) -> bool {
    uri.starts_with("http://") || uri.starts_with("https://")
}

/// Of an absolute URL the path alone.
fn path_of(uri: &str) -> String {
    if !is_absolute(uri) {
        return uri.to_owned();
    }
    let rest = uri.split_once("://").map_or("", |(_, rest)| rest);
    rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("/").to_owned()
}

fn check(conf: &Value, _: SchemaKind) -> Result<(), String> {
    check_url(conf, "idp_uri")?;
    let text = |name: &str| conf.get(name).and_then(Value::as_str).unwrap_or_default();
    for name in ["login_callback_uri", "logout_uri", "logout_callback_uri"] {
        let (uri, path) = (text(name), path_of(text(name)));
        if !is_secret_reference(uri) && (!path.starts_with('/') || path.contains(['?', '#'])) {
            return Err(format!("property \"{name}\" is not a path, or a URL without query and fragment"));
        }
    }
    for name in ["sp_issuer", "logout_redirect_uri"] {
        if text(name).is_empty() {
            return Err(format!("property \"{name}\" must not be empty"));
        }
    }
    let is_known = |names: &[&str]| !names.iter().any(|name| is_secret_reference(text(name)));
    if is_known(&["idp_cert"]) {
        ProviderKey::new(text("idp_cert")).map_err(|reason| format!("property \"idp_cert\": {reason}"))?;
    }
    if is_known(&["sp_cert", "sp_private_key"]) {
        signing_key(text("sp_private_key"), text("sp_cert"))?;
    }
    Ok(())
}

/// The certificate is what the identity provider checks requests with.
fn signing_key(private_key: &str, certificate: &str) -> Result<SigningKey, String> {
    let key = SigningKey::from_pem(Algorithm::Rs512, private_key, None)
        .map_err(|reason| format!("property \"sp_private_key\": {reason}"))?;
    let public = VerifyingKey::from_pem(Algorithm::Rs512, certificate)
        .map_err(|reason| format!("property \"sp_cert\": {reason}"))?;
    match public.verifies(b"probe", &key.signature_of(b"probe")?) {
        true => Ok(key),
        false => Err("property \"sp_cert\" is not the certificate of sp_private_key".to_owned()),
    }
}

fn remarks(conf: &Value) -> Vec<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut found = Vec::new();
    if !is_absolute(text("login_callback_uri")) {
        found.push("login_callback_uri is a path: the URL that the identity provider gets has the host that a client names".to_owned());
    }
    let paths = ["login_callback_uri", "logout_uri", "logout_callback_uri"].map(|name| path_of(text(name)));
    if paths[0] == paths[1] || paths[0] == paths[2] || paths[1] == paths[2] {
        found.push("login_callback_uri, logout_uri and logout_callback_uri have a path in common: the first of them counts".to_owned());
    }
    found.extend(size_remark("idp_cert", None, text("idp_cert")));
    found
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let conf: Conf = typed(conf)?;
    let place = json!([conf.sp_issuer, conf.idp_uri, conf.login_callback_uri]).to_string().into_bytes();
    let mut secrets = vec![conf.secret.as_str()];
    secrets.extend(conf.secret_fallbacks.iter().map(String::as_str));
    Ok(Arc::new(SamlAuth {
        login_callback_path: path_of(&conf.login_callback_uri),
        logout_path: path_of(&conf.logout_uri),
        logout_callback_path: path_of(&conf.logout_callback_uri),
        provider: Arc::new(ProviderKey::new(&conf.idp_cert)?),
        key: signing_key(&conf.sp_private_key, &conf.sp_cert)?,
        sessions: Sessions::new(&secrets, place, conf.auth_protocol_binding_method == "HTTP-POST")?,
        conf,
    }))
}

/// What a request is for.
enum Errand {
    LoginCallback,
    Logout,
    LogoutCallback,
    Resource,
}

impl SamlAuth {
    fn errand(&self, request: &Request) -> Errand {
        let is_at = |path: &str| request.path == path.as_bytes();
        if is_at(&self.login_callback_path) {
            Errand::LoginCallback
        } else if is_at(&self.logout_path) {
            Errand::Logout
        } else if is_at(&self.logout_callback_path) {
            Errand::LogoutCallback
        } else {
            Errand::Resource
        }
    }
}

impl Plugin for SamlAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        match self.errand(request) {
            Errand::LoginCallback => Step::wait(async move { Err(self.login_callback(request).await) }),
            Errand::Logout => Step::Reply(self.logout(request)),
            Errand::LogoutCallback => Step::wait(async move { Err(self.logout_callback(request).await) }),
            Errand::Resource => self.let_in(request).into(),
        }
    }

    fn foresee(&self, _: Phases, request: &mut Request) -> Foresight {
        match self.errand(request) {
            Errand::LoginCallback | Errand::LogoutCallback | Errand::Logout => {
                Foresight::answers_somehow(Why::Session)
            }
            Errand::Resource => Foresight::of_step(self.let_in(request).into()),
        }
    }
}

fn failed(status: u16, reason: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("saml-auth: {reason}"));
    Box::new(Reply::page(status))
}

/// The reason may quote what a client sent.
fn refused(refusal: &Refusal) -> Box<Reply> {
    let reason: String = refusal.reason().escape_debug().collect();
    failed(refusal.status(), &format!("a message of the identity provider is refused: {reason}"))
}

fn redirect(location: &str) -> Reply {
    Reply::page(302).header("Location", location).header("Cache-Control", "no-cache, no-store, max-age=0")
}

impl SamlAuth {
    fn let_in(&self, request: &mut Request) -> Verdict {
        let session = self.sessions.load(request).unwrap_or_default();
        let Some(user) = session.user(now_ms()) else { return Err(self.begin(session, request)) };
        let user = user.shown();
        request.extensions.insert(Identified);
        request.extensions.insert(ExternalUser(user));
        Ok(())
    }

    /// Where responses may be presented.
    fn callback_url(&self, request: &Request) -> String {
        let callback = &self.conf.login_callback_uri;
        if is_absolute(callback) {
            return callback.clone();
        }
        let scheme = if request.https { "https" } else { "http" };
        let host = request.header("Host").map_or_else(|| request.host.clone(), <[u8]>::to_vec);
        format!("{scheme}://{}{callback}", String::from_utf8_lossy(&host))
    }

    /// The redirect that takes a message to the identity provider.
    fn to_provider(&self, name: &str, document: &str, relay_state: &str) -> Result<Reply, String> {
        let arguments = binding::signed_arguments(name, document, relay_state, &self.key)?;
        let separator = if self.conf.idp_uri.contains('?') { '&' } else { '?' };
        Ok(redirect(&format!("{}{separator}{arguments}", self.conf.idp_uri)))
    }

    fn begin(&self, mut session: Session, request: &Request) -> Box<Reply> {
        let login = Login::new(return_url::of(request.head.target()), now_ms());
        let document = format!(
            "<samlp:AuthnRequest xmlns:samlp=\"urn:oasis:names:tc:SAML:2.0:protocol\" \
             xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" {} \
             ProtocolBinding=\"urn:oasis:names:tc:SAML:2.0:bindings:{}\" AssertionConsumerServiceURL=\"{}\">{}</samlp:AuthnRequest>",
            self.head(&login.request),
            self.conf.auth_protocol_binding_method,
            escape(self.callback_url(request)),
            self.issuer()
        );
        let reply = self.to_provider("SAMLRequest", &document, &login.state);
        session.add(login);
        let reply = reply.and_then(|reply| self.sessions.save(&session, request, reply));
        reply.map_or_else(|reason| failed(500, &reason), Box::new)
    }

    /// The attributes that all messages have.
    fn head(&self, id: &str) -> String {
        let now = Utc::now().to_rfc3339_opts(SecondsFormat::Secs, true);
        format!(
            "ID=\"{id}\" Version=\"2.0\" IssueInstant=\"{now}\" Destination=\"{}\"",
            escape(&self.conf.idp_uri)
        )
    }

    fn issuer(&self) -> String {
        format!("<saml:Issuer>{}</saml:Issuer>", escape(&self.conf.sp_issuer))
    }

    /// The first of these messages that the browser has brought.
    async fn brought(&self, request: &mut Request, names: &[&str]) -> Result<Brought, Box<Reply>> {
        let found = match request.head.method.as_bytes() {
            b"GET" => {
                let query = request.head.query().unwrap_or_default();
                names.iter().find_map(|name| binding::of_target(query, name, &self.provider).transpose())
            }
            b"POST" => {
                let form = match request.collect_body(binding::MOST_BYTES).await {
                    Ok(form) => form,
                    Err(reply) if reply.status == 413 => return Err(failed(400, "a form is too large")),
                    Err(reply) => return Err(reply),
                };
                names.iter().find_map(|name| binding::of_form(&form, name).transpose())
            }
            _ => return Err(Box::new(Reply::page(405))),
        };
        let found = found.unwrap_or_else(|| Err("there is none".to_owned()));
        found.map_err(|reason| refused(&Refusal::Malformed(reason)))
    }

    /// The browser is back from the identity provider.
    async fn login_callback(&self, request: &mut Request) -> Box<Reply> {
        let session = self.sessions.load(request).filter(Session::has_logins);
        let Some(mut session) = session else {
            return failed(503, "no session found, or no login under way");
        };
        let Brought { message, relay_state } = match self.brought(request, &["SAMLResponse"]).await {
            Ok(brought) => brought,
            Err(reply) => return reply,
        };
        let now = now_ms();
        let Some(login) = session.take(&relay_state.unwrap_or_default(), now) else {
            return failed(401, "a response has another RelayState than the login");
        };
        let (recipient, audience) = (self.callback_url(request), self.conf.sp_issuer.clone());
        let (key, asked) = (self.provider.clone(), login.request.clone());
        let read = move || {
            let expected =
                Expected { recipient: &recipient, audience: &audience, request: &asked, now_ms: now };
            message::vouched(&message, &key, &expected)
        };
        let vouched = match aside::run_by_size(request.remote_addr, usize::MAX, read).await {
            Ok(Ok(vouched)) => vouched,
            Ok(Err(refusal)) => return refused(&refusal),
            Err(aside::Undone) => return Box::new(Reply::page(503)),
        };
        // Both serve once. A cookie can be sent again, and so can a response.
        let ends_ms = vouched.usable_until_ms.max(now.saturating_add(3_600_000));
        if !states::claim(&login.state, ends_ms, now).unwrap_or(false) {
            return failed(401, "a login has been answered before");
        }
        if let Err(reason) = session::use_assertion(&vouched, &self.conf.sp_issuer, now) {
            return failed(401, reason);
        }
        let reply = session
            .log_in(User::new(vouched, now), now)
            .and_then(|()| self.sessions.save(&session, request, redirect(&login.original_url)));
        reply.map_or_else(|reason| failed(500, &reason), Box::new)
    }

    /// Ends the session, and sends the browser to the identity provider to end its own: a user who has pressed logout is out, even if
    /// the provider does not answer.
    fn logout(&self, request: &Request) -> Box<Reply> {
        let session = self.sessions.load(request);
        let user = session.as_ref().and_then(|session| session.user(now_ms())).cloned();
        let (Some(session), Some(user)) = (session, user) else { return Box::new(Reply::page(401)) };
        let index = user
            .session_index
            .as_deref()
            .map(|index| format!("<samlp:SessionIndex>{}</samlp:SessionIndex>", escape(index)));
        let document = format!(
            "<samlp:LogoutRequest xmlns:samlp=\"urn:oasis:names:tc:SAML:2.0:protocol\" \
             xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" {}>{}<saml:NameID>{}</saml:NameID>{}</samlp:LogoutRequest>",
            self.head(&random_id()),
            self.issuer(),
            escape(&user.name_id),
            index.unwrap_or_default()
        );
        let reply = self.to_provider("SAMLRequest", &document, "").and_then(|reply| {
            let left = session.leaving(now_ms())?;
            self.sessions.save(&left, request, reply)
        });
        reply.map_or_else(|reason| failed(500, &reason), Box::new)
    }

    async fn logout_callback(&self, request: &mut Request) -> Box<Reply> {
        let session = self.sessions.load(request).filter(|session| session.may_end(now_ms()));
        let Some(mut session) = session else { return failed(401, "a logout has no session") };
        let brought = match self.brought(request, &["SAMLResponse", "SAMLRequest"]).await {
            Ok(brought) => brought,
            Err(reply) => return reply,
        };
        let (key, now) = (self.provider.clone(), now_ms());
        let read = move || message::logout(&brought.message, &key, now);
        let message = match aside::run_by_size(request.remote_addr, usize::MAX, read).await {
            Ok(Ok(message)) => message,
            Ok(Err(refusal)) => return refused(&refusal),
            Err(aside::Undone) => return Box::new(Reply::page(503)),
        };
        let reply = match &message {
            Logout::Response => Ok(redirect(&self.conf.logout_redirect_uri)),
            Logout::Request { id, .. } => {
                let document = format!(
                    "<samlp:LogoutResponse xmlns:samlp=\"urn:oasis:names:tc:SAML:2.0:protocol\" \
                     xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\" {} InResponseTo=\"{}\">{}\
                     <samlp:Status><samlp:StatusCode Value=\"urn:oasis:names:tc:SAML:2.0:status:Success\"/></samlp:Status>\
                     </samlp:LogoutResponse>",
                    self.head(&random_id()),
                    escape(id),
                    self.issuer()
                );
                self.to_provider("SAMLResponse", &document, "")
            }
        };
        if let Logout::Request { name_id, session_index, .. } = &message {
            let user = session.user(now);
            if user.is_some_and(|user| user.name_id != *name_id || user.session_index != *session_index) {
                error_log::log(
                    Level::Warn,
                    format_args!("saml-auth: a logout is for another session than the browser's"),
                );
            }
        }
        let reply = reply.and_then(|reply| {
            session.log_out(now)?;
            self.sessions.save(&Session::default(), request, reply)
        });
        reply.map_or_else(|reason| failed(500, &reason), Box::new)
    }
}

#[cfg(test)]
mod tests;
