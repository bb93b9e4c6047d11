//! The authorisation code flow for browsers.
//!
//! ```text
//! request without a session -> authorize: 302 to the provider, state in the session cookie
//! redirect_uri?code&state   -> callback: token request, ID token, userinfo; 302 to the first URL
//! request with a session    -> headers for the upstream; the access token is renewed when it runs out
//! logout_path               -> session gone; 302 to the provider's logout
//! ```

use serde_json::{Value, json};
use tidegate_backtrack::SearchTime;
use tidegate_clients::{
    http::{Endpoint, Incoming, Outgoing},
    jws::Token,
};
use tidegate_plugin_api::{Foresight, Reply, Request, Verdict, Why};
use tidegate_protocol::HeaderId;
use tidegate_telemetry::error_log;

use super::{
    bearer,
    dpop::{Dpop, Shown},
    relying_party::OpenidConnect,
    session::{Identity, Login, Session, Store},
};
use crate::common::{auth::Identified, clock::now_seconds, cookies, return_url, service::with_arguments};

/// Consecutive logins restarted because of failed callbacks.
const MAX_RESTARTS: u32 = 3;
const NO_CACHE: &str = "no-cache, no-store, max-age=0";

fn fail(status: u16, reason: &str) -> Box<Reply> {
    error_log::log(error_log::Level::Error, format_args!("OIDC authentication failed: {reason}"));
    Box::new(Reply::page(status))
}

fn redirect(location: &str, cookies: Vec<String>) -> Box<Reply> {
    let reply = Reply::page(302).header("Location", location).header("Cache-Control", NO_CACHE);
    Box::new(cookies.into_iter().fold(reply, |reply, cookie| reply.header("Set-Cookie", cookie)))
}

fn argument(request: &Request, name: &str) -> Option<String> {
    request.arg(name).map(|value| String::from_utf8_lossy(&value).into_owned())
}

fn leads_to(uri: &str, raw_path: &str) -> bool {
    Endpoint::parse(uri).is_ok_and(|uri| path_of(&uri.target) == raw_path)
}

impl OpenidConnect {
    pub(super) async fn authenticate(&self, sessions: &Store, request: &mut Request) -> Verdict {
        let failed = |reason: String| fail(500, &reason);
        let session = sessions.load(request).await.map_err(failed)?;
        let raw_path = String::from_utf8_lossy(request.head.raw_path()).into_owned();
        let redirect_uri = self.redirect_uri(request);
        if leads_to(&redirect_uri, &raw_path) {
            return self.callback(sessions, session, request, &redirect_uri).await;
        }
        if raw_path == self.conf.logout_path {
            return self.logout(sessions, session, request).await;
        }
        let mut session = session.unwrap_or_default();
        let mut stale = self.conf.force_reauthorize;
        let mut changed = false;
        if let Some(identity) = &mut session.identity {
            changed = self.renew(identity).await;
            let expires = identity.access_token_expires;
            stale = stale || expires.is_some_and(|expires| expires <= now_seconds());
        }
        let Some(identity) = session.identity.clone().filter(|_| !stale) else {
            return self.unauthenticated(sessions, session, request, &redirect_uri, None).await;
        };
        let age = now_seconds() - identity.since_seconds;
        if self.conf.refresh_session_interval.is_some_and(|interval| age > interval) {
            return self.unauthenticated(sessions, session, request, &redirect_uri, Some("none")).await;
        }
        self.check_identity(&identity, &request.search_time)?;
        self.pass_on(request, &identity);
        if changed || session.restarts > 0 || sessions.wants_saving(&session) {
            session.restarts = 0;
            let lines = sessions.save(&mut session, request).await.map_err(failed)?;
            cookies::set(request, lines);
        }
        Ok(())
    }

    /// The request is not for a resource: it is the browser's way back, or signs out.
    pub(super) fn is_of_login(&self, request: &Request) -> bool {
        let raw_path = String::from_utf8_lossy(request.head.raw_path());
        leads_to(&self.redirect_uri(request), &raw_path) || raw_path == self.conf.logout_path
    }

    /// What [`unauthenticated`](Self::unauthenticated) would do.
    pub(super) fn foreseen_without_session(&self) -> Foresight {
        match self.conf.unauth_action.as_str() {
            "pass" => Foresight::Continues,
            "deny" => Foresight::answers(&Reply::page(401)),
            _ => Foresight::answers_somehow(Why::Asks),
        }
    }

    async fn unauthenticated(
        &self,
        sessions: &Store,
        session: Session,
        request: &mut Request,
        redirect_uri: &str,
        prompt: Option<&str>,
    ) -> Verdict {
        match self.conf.unauth_action.as_str() {
            "pass" => Ok(()),
            "deny" => Err(Box::new(Reply::page(401))),
            _ => {
                let answer = self.authorize(sessions, session, request, redirect_uri, prompt).await;
                Err(answer.unwrap_or_else(|reason| fail(500, &reason)))
            }
        }
    }

    /// Sends the browser to the provider.
    async fn authorize(
        &self,
        sessions: &Store,
        mut session: Session,
        request: &Request,
        redirect_uri: &str,
        prompt: Option<&str>,
    ) -> Result<Box<Reply>, String> {
        let login = self.new_login(return_url::of(request.head.target()));
        let location = self.location_of(&login, redirect_uri, prompt).await?;
        session.identity = None;
        session.add_login(login);
        let cookies = sessions.save(&mut session, request).await?;
        Ok(redirect(&location, cookies))
    }

    /// The browser is back from the provider.
    async fn callback(
        &self,
        sessions: &Store,
        session: Option<Session>,
        request: &mut Request,
        redirect_uri: &str,
    ) -> Verdict {
        let Some(mut session) = session else {
            return Err(fail(500, "request to the redirect_uri path but there's no session state found"));
        };
        let (code, state) = (argument(request, "code"), argument(request, "state"));
        let (Some(code), Some(state)) = (code, &state) else {
            let unavailable = argument(request, "error").as_deref() == Some("temporarily_unavailable");
            let login = state.filter(|_| unavailable).and_then(|state| session.take_login(&state));
            let reason = "unhandled request to the redirect_uri";
            return match login {
                Some(login) => self.restart(sessions, session, request, login.original_url, reason).await,
                None => Err(fail(500, reason)),
            };
        };
        let Some(login) = session.take_login(state) else {
            let reason = "state from argument does not match state restored from session";
            return match session.original_url.clone() {
                Some(url) => self.restart(sessions, session, request, url, reason).await,
                None => Err(fail(500, reason)),
            };
        };
        match sessions.claim(&login.state, &session).await {
            Ok(true) => {}
            Ok(false) => return Err(fail(400, "this callback was used before")),
            Err(reason) => return Err(fail(500, &reason)),
        }
        let issuer = argument(request, "iss");
        let identity = match self.exchange(issuer.as_deref(), &code, &login, redirect_uri).await {
            Ok(identity) => identity,
            Err(reason) => {
                sessions.release(&login.state).await;
                return Err(fail(500, &reason));
            }
        };
        // A new session: an attacker who knew the old one's id must not know this one's.
        let gone = sessions.destroy(Some(&session), request).await;
        gone.map_err(|reason| fail(500, &reason))?;
        let mut session = Session::logged_in(identity, session.logins);
        let cookies = sessions.save(&mut session, request).await.map_err(|reason| fail(500, &reason))?;
        Err(redirect(&login.original_url, cookies))
    }

    /// Restarts the login, since a browser cannot do much with an error page.
    async fn restart(
        &self,
        sessions: &Store,
        mut session: Session,
        request: &Request,
        url: String,
        reason: &str,
    ) -> Verdict {
        if session.restarts >= MAX_RESTARTS || request.head.method.as_bytes() != b"GET" {
            return Err(fail(500, &format!("{reason} (giving up after {} restarts)", session.restarts)));
        }
        session.restarts += 1;
        let cookies = sessions.save(&mut session, request).await.map_err(|reason| fail(500, &reason))?;
        error_log::log(
            error_log::Level::Warn,
            format_args!("OIDC {reason}, restarting the authentication flow"),
        );
        Err(redirect(&url, cookies))
    }

    /// Turns the code into tokens. `issuer`: as the answer of the provider names it, if it does.
    pub(super) async fn exchange(
        &self,
        issuer: Option<&str>,
        code: &str,
        login: &Login,
        redirect_uri: &str,
    ) -> Result<Identity, String> {
        let document = self.provider.discovery().await?;
        // RFC 9207: the answer of another provider must not be taken for this one's.
        if issuer.is_some() && document.get("issuer").and_then(Value::as_str) != issuer {
            return Err("iss from argument does not match expected issuer".to_owned());
        }
        let mut fields = vec![
            ("grant_type", "authorization_code".to_owned()),
            ("code", code.to_owned()),
            ("redirect_uri", redirect_uri.to_owned()),
            ("state", login.state.clone()),
        ];
        fields.extend(login.verifier.clone().map(|verifier| ("code_verifier", verifier)));
        let answer = self.ask_for_tokens(fields).await?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let raw_id_token = text("id_token");
        let id_token = match &raw_id_token {
            Some(token) => Some(self.check_id_token(token, login.nonce.as_deref()).await?),
            // Not what the standard allows, but plain OAuth 2 providers do; the nonce then proves nothing.
            None if login.nonce.is_none() => None,
            None => return Err("token answer has no id_token".to_owned()),
        };
        let access_token = text("access_token");
        if access_token.is_none() && id_token.is_none() {
            return Err("token answer has neither access_token nor id_token".to_owned());
        }
        let user = match &access_token {
            Some(token) => self.userinfo(token, id_token.as_ref()).await,
            None => None,
        };
        Ok(Identity {
            user,
            id_token,
            raw_id_token,
            access_token_expires: self.expiry(&answer),
            refresh_token: text("refresh_token"),
            access_token,
            since_seconds: now_seconds(),
        })
    }

    async fn ask_for_tokens(&self, fields: Vec<(&'static str, String)>) -> Result<Value, String> {
        let url = self.provider.endpoint("token_endpoint").await?;
        let method = &self.conf.token_endpoint_auth_method;
        let Some(dpop) = &self.dpop else {
            return self.client.post_for_json(&self.provider, &url, method, fields, Vec::new()).await;
        };
        let proof = || Ok::<_, String>(vec![dpop.proof(Shown::Issuer, "POST", &url, None)?]);
        let mut answer = self.client.post(&self.provider, &url, method, fields.clone(), proof()?).await?;
        // The provider wants its own nonce in proofs: once more, with that.
        if dpop.learn(Shown::Issuer, &answer) {
            answer = self.client.post(&self.provider, &url, method, fields, proof()?).await?;
            dpop.learn(Shown::Issuer, &answer);
        }
        super::provider::json(&url, &answer).await
    }

    fn expiry(&self, answer: &Value) -> Option<i64> {
        let lifetime = answer.get("expires_in").and_then(|value| match value {
            // Some providers send a text.
            Value::String(text) => text.parse().ok(),
            value => value.as_f64().map(|seconds| seconds as i64),
        });
        let lifetime = lifetime.or(self.conf.access_token_expires_in)?;
        Some(now_seconds().saturating_add(lifetime))
    }

    /// `None` when the provider has no such endpoint or answers about another user.
    async fn userinfo(&self, access_token: &str, id_token: Option<&Value>) -> Option<Value> {
        let document = self.provider.discovery().await.ok()?;
        let url = document.get("userinfo_endpoint").and_then(Value::as_str)?;
        let answer = async {
            let answer = match &self.dpop {
                None => {
                    let bearer = format!("Bearer {access_token}");
                    let outgoing = Outgoing::get(Endpoint::parse(url)?).header("Authorization", bearer);
                    self.provider.send(outgoing).await?
                }
                Some(dpop) => self.bound_userinfo(dpop, url, access_token).await?,
            };
            super::provider::json(url, &answer).await
        };
        let user = match answer.await {
            Ok(user) => user,
            Err(reason) => {
                error_log::log(
                    error_log::Level::Error,
                    format_args!("error calling userinfo endpoint: {reason}"),
                );
                return None;
            }
        };
        let subject = id_token.and_then(|token| token.get("sub"));
        subject.is_none_or(|subject| user.get("sub") == Some(subject)).then_some(user)
    }

    /// Asks with a token that is bound to a key.
    async fn bound_userinfo(&self, dpop: &Dpop, url: &str, token: &str) -> Result<Incoming, String> {
        let ask = async || {
            let mut outgoing = Outgoing::get(Endpoint::parse(url)?);
            outgoing = outgoing.header("Authorization", format!("DPoP {token}"));
            outgoing.headers.push(dpop.proof(Shown::Resource, "GET", url, Some(token))?);
            self.provider.send(outgoing).await
        };
        let answer = ask().await?;
        if !dpop.learn(Shown::Resource, &answer) {
            return Ok(answer);
        }
        let answer = ask().await?;
        dpop.learn(Shown::Resource, &answer);
        Ok(answer)
    }

    /// Renews the access token when it is about to expire; whether the session changed.
    async fn renew(&self, identity: &mut Identity) -> bool {
        let leeway = self.conf.access_token_expires_leeway;
        let due = identity.access_token_expires.is_some_and(|expires| expires - leeway <= now_seconds());
        let refresh =
            identity.refresh_token.clone().filter(|_| due && self.conf.renew_access_token_on_expiry);
        let Some(refresh_token) = refresh else { return false };
        let fields = vec![
            ("grant_type", "refresh_token".to_owned()),
            ("refresh_token", refresh_token),
            ("scope", self.conf.scope.clone()),
        ];
        let answer = match self.ask_for_tokens(fields).await {
            Ok(answer) => answer,
            Err(reason) => {
                error_log::log(
                    error_log::Level::Error,
                    format_args!("failed to renew the access token: {reason}"),
                );
                return false;
            }
        };
        let text = |name: &str| answer.get(name).and_then(Value::as_str).map(str::to_owned);
        let Some(access_token) = text("access_token") else { return false };
        if let Some(raw) = text("id_token")
            && let Ok(claims) = self.check_id_token(&raw, None).await
        {
            identity.id_token = Some(claims);
            identity.raw_id_token = Some(raw);
        }
        identity.access_token = Some(access_token);
        identity.access_token_expires = self.expiry(&answer);
        // A provider that does not rotate sends none: the old one stays.
        identity.refresh_token = text("refresh_token").or(identity.refresh_token.take());
        true
    }

    /// Claims and scopes that the configuration asks of a session.
    fn check_identity(&self, identity: &Identity, searches: &SearchTime) -> Result<(), Box<Reply>> {
        let mut claims = serde_json::Map::new();
        let mut add = |name: &str, value: Option<Value>| {
            if let Some(value) = value {
                claims.insert(name.to_owned(), value);
            }
        };
        add("user", identity.user.clone());
        add("access_token", identity.access_token.clone().map(Value::from));
        add("id_token", identity.id_token.clone());
        self.check_claim_schema(Value::Object(claims), searches).map_err(|reason| {
            fail(401, &format!("claim validation failed: {reason}"));
            bearer::invalid_token(&self.conf.realm, &reason)
        })?;
        let refuse = |message: &str| {
            fail(403, message);
            Err(Box::new(Reply::bytes(403, json!({ "error": message }).to_string())))
        };
        let id_token = identity.id_token.as_ref().unwrap_or(&Value::Null);
        let issuer = id_token.get("iss").and_then(Value::as_str).unwrap_or_default();
        let issuers = self.conf.claim_validator.issuer.valid_issuers.as_ref();
        if issuers.is_some_and(|valid| !valid.iter().any(|valid| valid == issuer)) {
            return refuse(&format!("Claim 'iss' ('{issuer}') returned failure"));
        }
        self.check_audience(id_token).or_else(refuse)?;
        let Some(required) = &self.conf.required_scopes else { return Ok(()) };
        match granted_scopes(identity) {
            None => refuse("required scopes not present"),
            Some(granted) if bearer::has_scopes(&granted, required) => Ok(()),
            Some(_) => refuse(&format!("required scopes {} not present", required.join(", "))),
        }
    }

    fn pass_on(&self, request: &mut Request, identity: &Identity) {
        request.extensions.insert(Identified);
        if let Some(token) = &identity.access_token {
            self.pass_access_token(request, token);
        }
        let headers = &mut request.head.headers;
        if let Some(claims) = identity.id_token.as_ref().filter(|_| self.conf.set_id_token_header) {
            headers.set("X-ID-Token", bearer::header_value(claims));
        }
        if let Some(user) = identity.user.as_ref().filter(|_| self.conf.set_userinfo_header) {
            headers.set("X-Userinfo", bearer::header_value(user));
        }
        if let Some(token) = identity.refresh_token.as_ref().filter(|_| self.conf.set_refresh_token_header) {
            headers.set("X-Refresh-Token", token);
        }
        if let Some(token) = identity.raw_id_token.as_ref().filter(|_| self.conf.set_raw_id_token_header) {
            headers.set("X-Raw-ID-Token", token);
        }
    }

    async fn logout(&self, sessions: &Store, session: Option<Session>, request: &Request) -> Verdict {
        let document = self.provider.discovery().await;
        let document = document.map_err(|reason| fail(503, &format!("discovery failed: {reason}")))?;
        let identity = session.as_ref().and_then(|session| session.identity.clone()).unwrap_or_default();
        let cookies = sessions.destroy(session.as_ref(), request).await;
        let cookies = cookies.map_err(|reason| fail(500, &reason))?;
        let endpoint = |name: &str| document.get(name).and_then(Value::as_str);
        if let Some(url) = endpoint("revocation_endpoint").filter(|_| self.conf.revoke_tokens_on_logout) {
            self.revoke(url, &identity).await;
        }
        let after = self.conf.post_logout_redirect_uri.as_deref();
        let mut arguments = Vec::new();
        let target = match endpoint("end_session_endpoint") {
            Some(url) => {
                arguments.extend(identity.raw_id_token.as_deref().map(|token| ("id_token_hint", token)));
                Some(url)
            }
            None => after,
        };
        let Some(target) = target else {
            let page = "<html><body>Logged Out</body></html>\n";
            let reply = Reply::bytes(200, page).content_type("text/html").header("Cache-Control", NO_CACHE);
            let reply = cookies.into_iter().fold(reply, |reply, cookie| reply.header("Set-Cookie", cookie));
            return Err(Box::new(reply));
        };
        arguments.extend(after.map(|after| ("post_logout_redirect_uri", after)));
        Err(redirect(&with_arguments(target, arguments), cookies))
    }

    /// RFC 7009. A provider that does not answer does not keep the user logged in here.
    async fn revoke(&self, url: &str, identity: &Identity) {
        let tokens = [("refresh_token", &identity.refresh_token), ("access_token", &identity.access_token)];
        for (kind, token) in tokens {
            let Some(token) = token else { continue };
            let fields = vec![("token", token.clone()), ("token_type_hint", kind.to_owned())];
            let method = &self.conf.token_endpoint_auth_method;
            if let Err(reason) = self.client.post(&self.provider, url, method, fields, Vec::new()).await {
                error_log::log(error_log::Level::Warn, format_args!("failed to revoke the {kind}: {reason}"));
            }
        }
    }

    /// Where the provider sends the browser back to, as an absolute URL.
    fn redirect_uri(&self, request: &Request) -> String {
        const SUFFIX: &str = "/.apisix/redirect";
        let path = match &self.conf.redirect_uri {
            Some(uri) if !uri.starts_with('/') => return uri.clone(),
            Some(path) => path.clone(),
            None => {
                let path = String::from_utf8_lossy(&request.path);
                match path.ends_with(SUFFIX) {
                    true => path.into_owned(),
                    false => format!("{}{SUFFIX}", path.strip_suffix('/').unwrap_or(&path)),
                }
            }
        };
        // The proxy has removed these headers unless the client is a trusted one.
        let first = |id: HeaderId| {
            let value = std::str::from_utf8(request.head.headers.known(id)?).ok()?;
            value.split(',').next().map(str::trim).filter(|value| !value.is_empty())
        };
        let forwarded = request.header("Forwarded").and_then(|value| std::str::from_utf8(value).ok());
        let forwarded = |name| forwarded.and_then(|value| forwarded_parameter(value, name));
        let own_scheme = if request.https { "https" } else { "http" };
        let scheme = forwarded("proto").or_else(|| first(HeaderId::XForwardedProto)).unwrap_or(own_scheme);
        let host =
            forwarded("host").or_else(|| first(HeaderId::XForwardedHost)).or_else(|| first(HeaderId::Host));
        let host = host.map_or_else(|| String::from_utf8_lossy(&request.host).into_owned(), str::to_owned);
        format!("{scheme}://{host}{path}")
    }
}

/// A parameter of the first element of `Forwarded` (RFC 7239, section 4).
fn forwarded_parameter<'a>(value: &'a str, name: &str) -> Option<&'a str> {
    let first = value.split(',').next()?;
    let (_, found) = first
        .split(';')
        .filter_map(|pair| pair.split_once('='))
        .find(|(key, _)| key.trim().eq_ignore_ascii_case(name))?;
    Some(found.trim().trim_matches('"')).filter(|found| !found.is_empty())
}

fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// Scopes that the access token names, or else the ID token.
fn granted_scopes(identity: &Identity) -> Option<String> {
    let of_access = identity.access_token.as_ref().and_then(|token| {
        let token = Token::parse(token.as_bytes()).ok()?;
        token.payload.get("scope").cloned()
    });
    let scope = of_access.or_else(|| identity.id_token.as_ref()?.get("scope").cloned());
    scope.and_then(|scope| scope.as_str().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    use tidegate_clients::nginx_base64;

    use super::*;

    #[test]
    fn scopes_of_a_session() {
        let token = |payload: &str| format!("e30.{}.x", nginx_base64::encode_url(payload));
        let identity = Identity { access_token: Some(token(r#"{"scope":"a b"}"#)), ..Identity::default() };
        assert_eq!(granted_scopes(&identity).as_deref(), Some("a b"));
        let opaque = Identity { access_token: Some("opaque".to_owned()), ..Identity::default() };
        assert_eq!(granted_scopes(&opaque), None);
    }
}
