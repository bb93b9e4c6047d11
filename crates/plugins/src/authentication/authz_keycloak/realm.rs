//! Keycloak as one client of a realm knows it: its endpoints, the client's own token, and resources of paths.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::http::{self, ClientOptions, Endpoint, Incoming, Outgoing};
use tidegate_plugin_api::Reply;
use tidegate_telemetry::error_log::{self, Level};

use crate::common::{
    clock::now_seconds,
    flight::{self, Flights},
    service,
};

#[derive(Clone, Deserialize)]
pub(super) struct Settings {
    pub(super) client_id: String,
    client_secret: Option<String>,
    discovery: Option<String>,
    token_endpoint: Option<String>,
    resource_registration_endpoint: Option<String>,
    cache_ttl_seconds: u64,
    access_token_expires_in: i64,
    access_token_expires_leeway: i64,
    refresh_token_expires_in: i64,
    refresh_token_expires_leeway: i64,
}

pub(super) struct Realm {
    settings: Settings,
    options: ClientOptions,
    document: Mutex<Option<(Arc<Value>, Instant)>>,
    discovering: Flights<Arc<Value>>,
    token: Mutex<Option<OwnToken>>,
    asking: Flights<Arc<str>>,
}

/// The token with which the client asks about resources.
#[derive(Clone)]
struct OwnToken {
    access: Arc<str>,
    /// Seconds since 1970, as those below.
    access_until: i64,
    refresh: Option<(String, i64)>,
    kept_until: i64,
}

type Field<'a> = (&'a str, &'a str);

/// Without an answer of Keycloak. The reason is for the operator.
pub(super) fn unavailable(reason: &str) -> Box<Reply> {
    error_log::log(Level::Error, format_args!("authz-keycloak: {reason}"));
    Box::new(Reply::page(503))
}

/// The JSON object of an answer that is 200.
pub(super) async fn object(url: &str, answer: &Incoming) -> Result<Value, String> {
    if answer.status != 200 {
        return Err(format!("{url}: {}", answer.refusal()));
    }
    service::json(url, answer).await
}

impl Realm {
    pub(super) fn new(settings: Settings, options: ClientOptions) -> Realm {
        Realm {
            settings,
            options,
            document: Mutex::default(),
            discovering: Flights::default(),
            token: Mutex::default(),
            asking: Flights::default(),
        }
    }

    pub(super) async fn token_endpoint(&self) -> Result<String, Box<Reply>> {
        self.endpoint(&self.settings.token_endpoint, "token_endpoint", "token endpoint").await
    }

    /// One that is configured, or that the discovery document names.
    async fn endpoint(
        &self,
        configured: &Option<String>,
        name: &str,
        shown: &str,
    ) -> Result<String, Box<Reply>> {
        if let Some(url) = configured {
            return Ok(url.clone());
        }
        let document = self.discovery().await.map_err(|reason| unavailable(&reason))?;
        let named = document.as_ref().and_then(|document| document.get(name)).and_then(Value::as_str);
        named.map(str::to_owned).ok_or_else(|| {
            let reason = format!("Unable to determine {shown}.");
            error_log::log(Level::Error, format_args!("authz-keycloak: {reason}"));
            Box::new(Reply::bytes(503, reason))
        })
    }

    /// `None`: it is not asked for.
    async fn discovery(&self) -> Result<Option<Arc<Value>>, String> {
        let Some(url) = &self.settings.discovery else { return Ok(None) };
        let lifetime = Duration::from_secs(self.settings.cache_ttl_seconds);
        let known = self.document.lock().clone().filter(|(_, since)| since.elapsed() < lifetime);
        if let Some((document, _)) = known {
            return Ok(Some(document));
        }
        let document = flight::join(&self.discovering, "", async {
            let answer = self.send(Outgoing::get(Endpoint::parse(url)?)).await?;
            let document = Arc::new(object(url, &answer).await?);
            *self.document.lock() = Some((document.clone(), Instant::now()));
            Ok(document)
        });
        document.await.map(Some)
    }

    async fn send(&self, outgoing: Outgoing) -> Result<Incoming, String> {
        let host = outgoing.endpoint.host_header();
        http::send(outgoing, &self.options)
            .await
            .map_err(|reason| format!("accessing {host} failed: {reason}"))
    }

    pub(super) async fn post(
        &self,
        url: &str,
        fields: &[Field<'_>],
        authorization: Option<&[u8]>,
    ) -> Result<Incoming, String> {
        let form = service::arguments(fields.iter().copied());
        let outgoing = Outgoing::post(Endpoint::parse(url)?, "application/x-www-form-urlencoded", form);
        self.send(match authorization {
            Some(value) => outgoing.header("Authorization", value),
            None => outgoing,
        })
        .await
    }

    /// Fields of a form in which the client itself asks for a token.
    pub(super) fn credentials<'a>(&'a self, grant_type: &'a str) -> Vec<Field<'a>> {
        let secret = self.settings.client_secret.as_deref();
        let mut fields = vec![("grant_type", grant_type), ("client_id", self.settings.client_id.as_str())];
        fields.extend(secret.map(|secret| ("client_secret", secret)));
        fields
    }

    /// The ids of the resources that Keycloak has for a path.
    pub(super) async fn resources(&self, path: &str) -> Result<Vec<String>, Box<Reply>> {
        let token_endpoint = self.token_endpoint().await?;
        let token = flight::join(&self.asking, "", self.own_token(&token_endpoint)).await;
        let token = token.map_err(|reason| unavailable(&reason))?;
        let configured = &self.settings.resource_registration_endpoint;
        let url =
            self.endpoint(configured, "resource_registration_endpoint", "registration endpoint").await?;
        let asked = async {
            let with_path = service::with_arguments(&url, [("matchingUri", "true"), ("uri", path)]);
            let outgoing = Outgoing::get(Endpoint::parse(&with_path)?);
            let outgoing = outgoing.header("Authorization", format!("Bearer {token}"));
            let value = object(&url, &self.send(outgoing).await?).await?;
            let ids = value.as_array().ok_or("the answer is not a list")?.iter();
            let ids: Option<Vec<String>> = ids.map(|id| id.as_str().map(str::to_owned)).collect();
            ids.ok_or_else(|| "a list of resources has something else in it".to_owned())
        };
        asked.await.map_err(|reason: String| unavailable(&format!("resources of a path: {reason}")))
    }

    /// Kept, renewed with its refresh token, or a new one.
    async fn own_token(&self, url: &str) -> Result<Arc<str>, String> {
        let now = now_seconds();
        let known = self.token.lock().clone().filter(|token| now < token.kept_until);
        if let Some(token) = known.as_ref().filter(|token| now < token.access_until) {
            return Ok(token.access.clone());
        }
        let refresh = known.and_then(|token| token.refresh).filter(|(_, until)| now < *until);
        if let Some((refresh_token, until)) = refresh {
            let mut fields = self.credentials("refresh_token");
            fields.push(("refresh_token", &refresh_token));
            let answer = object(url, &self.post(url, &fields, None).await?).await;
            // One that Keycloak does not take any more is replaced below.
            if let Some(token) = answer.ok().and_then(|answer| self.read(&answer, now)) {
                let refresh = token.refresh.or(Some((refresh_token, until)));
                let access = token.access.clone();
                *self.token.lock() = Some(OwnToken { refresh, ..token });
                return Ok(access);
            }
        }
        let answer =
            object(url, &self.post(url, &self.credentials("client_credentials"), None).await?).await?;
        let token = self.read(&answer, now).ok_or_else(|| format!("{url} answered no access_token"))?;
        let access = token.access.clone();
        *self.token.lock() = Some(token);
        Ok(access)
    }

    fn read(&self, answer: &Value, now: i64) -> Option<OwnToken> {
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        let until = |name: &str, default: i64, leeway: i64| {
            let lifetime = answer.get(name).and_then(Value::as_f64).map_or(default, |seconds| seconds as i64);
            now.saturating_add(lifetime).saturating_sub(leeway).saturating_sub(1)
        };
        let settings = &self.settings;
        let (default, leeway) = (settings.refresh_token_expires_in, settings.refresh_token_expires_leeway);
        let refresh_until = until("refresh_expires_in", default, leeway);
        let kept = i64::try_from(settings.cache_ttl_seconds).unwrap_or(i64::MAX);
        Some(OwnToken {
            access: text("access_token")?.into(),
            access_until: until(
                "expires_in",
                settings.access_token_expires_in,
                settings.access_token_expires_leeway,
            ),
            refresh: text("refresh_token").map(|token| (token.to_owned(), refresh_until)),
            kept_until: now.saturating_add(kept),
        })
    }
}
