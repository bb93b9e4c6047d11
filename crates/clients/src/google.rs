//! Access tokens of Google for service accounts. A signed assertion (RFC 7523) is exchanged for a token, which is kept until
//! shortly before its end.

use std::{
    io::Read,
    sync::Arc,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use aws_lc_rs::digest;
use hyper::header::HeaderValue;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::json as reader;

use crate::{
    http::{ClientOptions, Endpoint, Outgoing, send},
    jws::Algorithm,
    jws_sign::SigningKey,
};

const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const SCOPE: &str = "https://www.googleapis.com/auth/cloud-platform";

/// A token this close to its end is not used any more.
const TOKEN_MARGIN: Duration = Duration::from_secs(60);
const MAX_TOKENS: usize = 64;

/// Values in the answer of the token service, which has a handful.
const MAX_VALUES: usize = 1024;

/// Longer than any `auth_file`.
const MAX_FILE: u64 = 1 << 20;

/// `auth_config`, or the content of the `auth_file` that Google hands out.
#[derive(Deserialize)]
pub struct ServiceAccount {
    client_email: String,
    private_key: String,
    /// Of the key file; empty if it has none.
    pub project_id: String,
    token_uri: Option<String>,
    /// Where the service is.
    pub entries_uri: Option<String>,
    scope: Option<Value>,
    /// Wins over `scope`.
    scopes: Option<Value>,
}

/// Where an account is written.
pub enum AccountSource {
    /// From the configuration.
    Given(Arc<ServiceAccount>),
    /// From a file, read when it is first needed.
    File(String),
}

impl AccountSource {
    /// Of a configuration with `auth_config` or `auth_file`.
    pub fn new(conf: &Value) -> Result<AccountSource, String> {
        if let Some(written) = conf.get("auth_config") {
            let account = ServiceAccount::deserialize(written);
            return account
                .map(|account| AccountSource::Given(Arc::new(account)))
                .map_err(|error| format!("auth_config: {error}"));
        }
        let path = conf.get("auth_file").and_then(Value::as_str);
        path.map(|path| AccountSource::File(path.to_owned()))
            .ok_or_else(|| "auth_config or auth_file is required".to_owned())
    }

    /// A file is read each time, so that a new key in it counts.
    pub async fn account(&self) -> Result<Arc<ServiceAccount>, String> {
        let path = match self {
            AccountSource::Given(account) => return Ok(account.clone()),
            AccountSource::File(path) => path.clone(),
        };
        let read = tokio::task::spawn_blocking(move || {
            let mut content = Vec::new();
            std::fs::File::open(&path)
                .and_then(|file| file.take(MAX_FILE).read_to_end(&mut content))
                .map_err(|error| format!("failed to read configuration, file: {path}, err: {error}"))?;
            serde_json::from_slice(&content)
                .map_err(|error| format!("config parse failure, file: {path}, err: {error}"))
        });
        read.await.map_err(|error| error.to_string())?.map(Arc::new)
    }
}

/// What the service answers, as far as it is used. Members of another type count as missing.
#[derive(Deserialize)]
struct Answer {
    access_token: Option<Value>,
    token_type: Option<Value>,
    expires_in: Option<Value>,
}

#[derive(Clone)]
struct Token {
    authorization: String,
    until: Instant,
}

/// By what a token depends on.
static TOKENS: Mutex<Option<FxHashMap<[u8; 32], Token>>> = Mutex::new(None);

impl ServiceAccount {
    /// The `Authorization` of a request: of the token that is still valid, or of a new one.
    pub async fn authorization(&self, options: &ClientOptions) -> Result<String, String> {
        let key = self.cache_key(options);
        let known = TOKENS.lock().get_or_insert_default().get(&key).cloned();
        if let Some(token) = known
            && token.until.saturating_duration_since(Instant::now()) > TOKEN_MARGIN
        {
            return Ok(token.authorization);
        }
        let token = self
            .ask_token(options)
            .await
            .map_err(|reason| format!("failed to refresh google oauth access token: {reason}"))?;
        let authorization = token.authorization.clone();
        let mut tokens = TOKENS.lock();
        let tokens = tokens.get_or_insert_default();
        if tokens.len() >= MAX_TOKENS {
            tokens.clear();
        }
        tokens.insert(key, token);
        Ok(authorization)
    }

    /// For a service that refuses the token: it was revoked early, and the next request asks for another one.
    pub fn forget_token(&self, options: &ClientOptions) {
        TOKENS.lock().get_or_insert_default().remove(&self.cache_key(options));
    }

    fn token_uri(&self) -> &str {
        self.token_uri.as_deref().unwrap_or(TOKEN_URI)
    }

    fn cache_key(&self, options: &ClientOptions) -> [u8; 32] {
        let mut context = digest::Context::new(&digest::SHA256);
        let scope = self.scope();
        for text in [self.token_uri(), &self.client_email, &self.private_key, &self.project_id, &scope] {
            context.update(&text.len().to_le_bytes());
            context.update(text.as_bytes());
        }
        context.update(&[u8::from(options.tls.verify)]);
        let mut key = [0; 32];
        key.copy_from_slice(context.finish().as_ref());
        key
    }

    async fn ask_token(&self, options: &ClientOptions) -> Result<Token, String> {
        let assertion = self.assertion()?;
        let body =
            format!("grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion={assertion}");
        let endpoint = Endpoint::parse(self.token_uri())?;
        let request = Outgoing::post(endpoint, "application/x-www-form-urlencoded", body);
        let asked = Instant::now();
        let answer = send(request, options).await?;
        if answer.status != 200 {
            return Err(answer.refusal());
        }
        let answer = reader::parse_within(&answer.body, MAX_VALUES).map_err(|fault| fault.to_string())?;
        let answer = Answer::deserialize(answer).map_err(|error| error.to_string())?;
        let text = |value: Option<Value>| match value {
            Some(Value::String(text)) => Some(text),
            _ => None,
        };
        let token = text(answer.access_token).ok_or("no access_token in the answer")?;
        let kind = text(answer.token_type).unwrap_or_else(|| "Bearer".to_owned());
        let authorization = format!("{kind} {token}");
        // It would be of no use until it ends.
        if HeaderValue::from_str(&authorization).is_err() {
            return Err("the token in the answer cannot be sent in a header".to_owned());
        }
        let seconds = answer.expires_in.as_ref().and_then(Value::as_u64).unwrap_or_default().min(86_400);
        Ok(Token { authorization, until: asked + Duration::from_secs(seconds) })
    }

    fn scope(&self) -> String {
        match self.scopes.as_ref().or(self.scope.as_ref()) {
            Some(Value::String(scope)) => scope.clone(),
            Some(Value::Array(scopes)) => {
                scopes.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" ")
            }
            _ => SCOPE.to_owned(),
        }
    }

    fn assertion(&self) -> Result<String, String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let claims = json!({
            "iss": self.client_email,
            "aud": self.token_uri(),
            "scope": self.scope(),
            "iat": now,
            "exp": now + 3600,
        });
        SigningKey::from_pem(Algorithm::Rs256, &self.private_key, None)?.sign(&claims)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(more: Value) -> ServiceAccount {
        let mut account = json!({"client_email": "e", "private_key": "k", "project_id": "p"});
        if let (Some(account), Value::Object(more)) = (account.as_object_mut(), more) {
            account.extend(more);
        }
        serde_json::from_value(account).expect("an account")
    }

    #[test]
    fn scopes_of_an_account() {
        for (more, scope) in [
            (json!({}), SCOPE),
            (json!({"scope": "a"}), "a"),
            (json!({"scope": ["a", "b"]}), "a b"),
            (json!({"scope": ["a"], "scopes": ["b", "c"]}), "b c"),
        ] {
            assert_eq!(account(more).scope(), scope);
        }
    }

    #[test]
    fn another_key_is_another_account() {
        let options = ClientOptions::default();
        let other = account(json!({"private_key": "other"})).cache_key(&options);
        assert_ne!(account(json!({})).cache_key(&options), other);
        assert_eq!(
            account(json!({})).cache_key(&options),
            account(json!({"entries_uri": "u"})).cache_key(&options)
        );
    }
}
