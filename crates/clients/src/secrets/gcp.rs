//! Google Cloud Secret Manager: `NAME`, or `NAME/KEY` for a member of a secret that is a JSON object.
//!
//! A service account's signed assertion (RFC 7523) is exchanged for an access token, which is kept until shortly
//! before its end.

use std::{
    fmt::Display,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::manager::{Failure, member_of_text, options, refusal, text};
use crate::{
    http::{Endpoint, Outgoing, send},
    jws::Algorithm,
    jws_sign::SigningKey,
    nginx_base64,
};

const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const ENTRIES_URI: &str = "https://secretmanager.googleapis.com/v1";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// A token this close to its end is not used any more.
const TOKEN_MARGIN: Duration = Duration::from_secs(60);
const MAX_TOKENS: usize = 64;

/// `auth_config`, or the content of the `auth_file` that Google hands out.
#[derive(Deserialize)]
struct Account {
    client_email: String,
    private_key: String,
    project_id: String,
    token_uri: Option<String>,
    entries_uri: Option<String>,
    scope: Option<Value>,
}

#[derive(Clone)]
struct Token {
    authorization: String,
    until: Instant,
}

static TOKENS: Mutex<Option<FxHashMap<String, Token>>> = Mutex::new(None);

pub(super) async fn fetch(conf: &Value, path: &str) -> Result<String, Failure> {
    let (name, key) = path.split_once('/').map_or((path, None), |(name, key)| (name, Some(key)));
    if name.is_empty() {
        return Err(Failure::Missing(format!("can't find main key, key: {path}")));
    }
    let account = account(conf).await.map_err(unavailable)?;
    let verify = conf.get("ssl_verify").and_then(Value::as_bool).unwrap_or(true);
    let secret = secret(&account, name, verify).await?;
    match key {
        None => Ok(secret),
        Some(key) => member_of_text(&secret, key),
    }
}

fn unavailable(reason: impl Display) -> Failure {
    Failure::Unavailable(format!("failed to retrieve data from gcp secret manager: {reason}"))
}

async fn account(conf: &Value) -> Result<Account, String> {
    if let Some(written) = conf.get("auth_config") {
        return Account::deserialize(written).map_err(|error| format!("auth_config: {error}"));
    }
    let path = text(conf, "auth_file").ok_or("auth_config or auth_file is required")?.to_owned();
    let read = tokio::task::spawn_blocking(move || {
        let content = std::fs::read(&path)
            .map_err(|error| format!("failed to read configuration, file: {path}, err: {error}"))?;
        serde_json::from_slice(&content)
            .map_err(|error| format!("config parse failure, file: {path}, err: {error}"))
    });
    read.await.map_err(|error| error.to_string())?
}

async fn secret(account: &Account, name: &str, verify: bool) -> Result<String, Failure> {
    let entries = account.entries_uri.as_deref().unwrap_or(ENTRIES_URI);
    let url = format!("{entries}/projects/{}/secrets/{name}/versions/latest:access", account.project_id);
    let endpoint = Endpoint::parse(&url).map_err(unavailable)?;
    let (cache_key, token) = token(account, verify).await.map_err(unavailable)?;
    let request = Outgoing::get(endpoint)
        .header("Content-Type", "application/json")
        .header("Authorization", token.authorization);
    let answer = send(request, &options(verify)).await.map_err(unavailable)?;
    match answer.status {
        200 => {}
        404 => return Err(Failure::Missing(format!("gcp has no secret {name}"))),
        status => {
            if status == 401 {
                // The token was revoked early: the next attempt asks for another one.
                TOKENS.lock().get_or_insert_default().remove(&cache_key);
            }
            return Err(unavailable(refusal(&answer)));
        }
    }
    let body = super::manager::json(&answer.body)?;
    let data = body.get("payload").and_then(|payload| text(payload, "data"));
    let data = data.ok_or_else(|| unavailable("invalid payload"))?;
    let bytes =
        nginx_base64::decode(data.as_bytes()).ok_or_else(|| unavailable("the payload is not base64"))?;
    String::from_utf8(bytes).map_err(|_| Failure::Missing(format!("secret {name} is not text")))
}

/// A token that is still valid, and its cache key.
async fn token(account: &Account, verify: bool) -> Result<(String, Token), String> {
    let uri = account.token_uri.as_deref().unwrap_or(TOKEN_URI);
    let key = format!("{uri} {} {} {verify}", account.client_email, account.project_id);
    let known = TOKENS.lock().get_or_insert_default().get(&key).cloned();
    if let Some(token) = known
        && token.until.saturating_duration_since(Instant::now()) > TOKEN_MARGIN
    {
        return Ok((key, token));
    }
    let token = ask_token(account, uri, verify)
        .await
        .map_err(|reason| format!("failed to refresh google oauth access token: {reason}"))?;
    let mut tokens = TOKENS.lock();
    let tokens = tokens.get_or_insert_default();
    if tokens.len() >= MAX_TOKENS {
        tokens.clear();
    }
    tokens.insert(key.clone(), token.clone());
    Ok((key, token))
}

async fn ask_token(account: &Account, uri: &str, verify: bool) -> Result<Token, String> {
    let assertion = assertion(account, uri)?;
    let body =
        format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
    let request = Outgoing::post(Endpoint::parse(uri)?, "application/x-www-form-urlencoded", body);
    let asked = Instant::now();
    let answer = send(request, &options(verify)).await?;
    if answer.status != 200 {
        return Err(refusal(&answer));
    }
    let answer: Value = serde_json::from_slice(&answer.body).map_err(|error| error.to_string())?;
    let token = text(&answer, "access_token").ok_or("no access_token in the answer")?;
    let kind = text(&answer, "token_type").unwrap_or("Bearer");
    let seconds = answer.get("expires_in").and_then(Value::as_u64).unwrap_or_default().min(86_400);
    Ok(Token { authorization: format!("{kind} {token}"), until: asked + Duration::from_secs(seconds) })
}

fn assertion(account: &Account, uri: &str) -> Result<String, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let scope = match &account.scope {
        Some(Value::String(scope)) => scope.clone(),
        Some(Value::Array(scopes)) => scopes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        _ => SCOPE.to_owned(),
    };
    let claims = json!({
        "iss": account.client_email,
        "aud": uri,
        "scope": scope,
        "iat": now,
        "exp": now + 3600,
    });
    SigningKey::from_pem(Algorithm::Rs256, &account.private_key, None)?.sign(&claims)
}
