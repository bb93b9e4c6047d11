//! Requests that bring their own access token: checked here by key, or by the provider's introspection (RFC 7662).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use aws_lc_rs::digest::{Context, SHA256};
use serde_json::{Value, json};
use tidegate_clients::{
    jws::{ALGORITHMS, Algorithm, Token, VerifyingKey},
    nginx_base64,
};
use tidegate_plugin_api::{Reply, Request};
use tidegate_telemetry::error_log;

use super::relying_party::OpenidConnect;
use crate::common::{
    auth,
    clock::now_seconds,
    token_cache::{self, Verified},
};

/// Answers of introspection kept per configuration.
const MAX_INTROSPECTIONS: usize = 4096;

/// A key for each algorithm that it fits.
pub(crate) fn public_keys(pem: &str) -> Vec<(Algorithm, VerifyingKey)> {
    let fitting = |(_, algorithm): &(&str, Algorithm)| {
        VerifyingKey::from_pem(*algorithm, pem).ok().map(|key| (*algorithm, key))
    };
    ALGORITHMS.iter().filter_map(fitting).collect()
}

/// The token a request brings, if any. `Err`: the header is malformed.
pub(super) fn token(request: &Request, access_token_header: Option<&str>) -> Result<Option<String>, ()> {
    let Some(header) = auth::credentials(request, "Authorization").map_err(|_| ())? else {
        return Ok(access_token_header.map(str::to_owned));
    };
    let header = String::from_utf8_lossy(header);
    match header.split_once(' ') {
        None => Err(()),
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => Ok(Some(token.to_owned())),
        Some(_) => Ok(None),
    }
}

/// 401 that says what is wrong with the token; the text comes from elsewhere and goes into a header.
pub(crate) fn invalid_token(realm: &str, reason: &str) -> Box<Reply> {
    let reason: String =
        reason.chars().filter(|c| !c.is_control()).map(|c| if c == '"' { '\'' } else { c }).collect();
    let challenge =
        format!("Bearer realm=\"{realm}\", error=\"invalid_token\", error_description=\"{reason}\"");
    Box::new(Reply::page(401).header("WWW-Authenticate", challenge))
}

/// Names a question and its answer: the provider may judge a token by the fields beside it.
fn introspection_key(token: &str, headers: &[(String, Vec<u8>)]) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    let fields = headers.iter().flat_map(|(name, value)| [name.as_bytes(), value]);
    for text in [token.as_bytes()].into_iter().chain(fields) {
        context.update(&text.len().to_le_bytes());
        context.update(text);
    }
    let mut key = [0; 32];
    key.copy_from_slice(context.finish().as_ref());
    key
}

fn failed(reason: &str) {
    error_log::log(error_log::Level::Error, format_args!("OIDC introspection failed: {reason}"));
}

impl OpenidConnect {
    /// The client's token. `Ok(None)`: it has none, and needs none.
    pub(crate) fn token_of(
        &self,
        request: &Request,
        access_token_header: Option<&str>,
    ) -> Result<Option<String>, Box<Reply>> {
        let Ok(token) = token(request, access_token_header) else {
            failed("Invalid Authorization header format.");
            return Err(Box::new(Reply::page(400)));
        };
        let Some(token) = token else {
            if !self.conf.bearer_only {
                return Ok(None);
            }
            failed("No bearer token found in request.");
            let challenge = format!("Bearer realm=\"{}\"", self.conf.realm);
            return Err(Box::new(Reply::page(401).header("WWW-Authenticate", challenge)));
        };
        Ok(Some(token))
    }

    /// The claims of the request's token, and the token; `None` when it brings none and need not.
    pub(crate) async fn check_bearer(
        &self,
        request: &Request,
        access_token_header: Option<&str>,
    ) -> Result<Option<(Value, String)>, Box<Reply>> {
        let Some(token) = self.token_of(request, access_token_header)? else { return Ok(None) };
        let claims = if self.conf.public_key.is_some() || self.conf.use_jwks {
            self.verify(&token).await
        } else {
            self.introspect(request, &token).await.and_then(|claims| self.check_issuer(claims))
        };
        let claims = claims.and_then(|claims| {
            let checked = self.check_claim_schema(claims.clone(), &request.search_time);
            checked.map(|()| claims)
        });
        match claims {
            Ok(claims) => Ok(Some((claims, token))),
            Err(reason) => {
                failed(&reason);
                Err(invalid_token(&self.conf.realm, &reason))
            }
        }
    }

    /// The provider vouches for introspected tokens, but configured `valid_issuers` still apply.
    fn check_issuer(&self, claims: Value) -> Result<Value, String> {
        let Some(issuers) = &self.conf.claim_validator.issuer.valid_issuers else { return Ok(claims) };
        let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        match issuers.iter().any(|valid| valid == issuer) {
            true => Ok(claims),
            false => Err(format!("Claim 'iss' ('{issuer}') returned failure")),
        }
    }

    async fn verify(&self, token: &str) -> Result<Value, String> {
        let issuers = match &self.conf.claim_validator.issuer.valid_issuers {
            Some(issuers) => issuers.clone(),
            // Without an issuer to compare, any other one with the same key could make tokens for this API.
            None => match self.provider.discovery().await {
                Ok(document) => {
                    document.get("issuer").and_then(Value::as_str).map(str::to_owned).into_iter().collect()
                }
                Err(reason) => {
                    failed(&format!("OIDC access discovery url failed: {reason}"));
                    return Err("issuer validation unavailable".to_owned());
                }
            },
        };
        let claims = self.verified_claims(token).await?;
        let issuer = claims.get("iss").and_then(Value::as_str).unwrap_or_default();
        if !issuers.iter().any(|valid| valid == issuer) {
            return Err(format!("Claim 'iss' ('{issuer}') returned failure"));
        }
        check_times(&claims, now_seconds())?;
        Ok(claims)
    }

    /// Claims of a token with a good signature, whose other claims are not checked yet.
    async fn verified_claims(&self, token: &str) -> Result<Value, String> {
        let cached = Some(token.as_bytes()).filter(|_| !self.conf.jwt_verification_cache_ignore);
        // Keys, and so what was verified with them, are shared by configurations that may expect another algorithm.
        let counts = |known: &Verified, serial: u64| {
            known.key_serial == serial && self.expects(known.algorithm.name())
        };
        if self.conf.public_key.is_some() {
            if let Some(known) = cached.and_then(token_cache::get).filter(|known| counts(known, self.serial))
            {
                return Ok(known.payload.clone());
            }
            let parsed = self.parse(token)?;
            let (parsed, algorithm) = parsed;
            let mut keys = self.public_keys.iter().filter(|(of, _)| *of == algorithm);
            if !keys.any(|(_, key)| parsed.is_signed_by(key)) {
                return Err("jwt signature verification failed".to_owned());
            }
            return Ok(remember(token, parsed.payload, algorithm, self.serial));
        }
        let keys = self.provider.keys(false).await?;
        if let Some(known) = cached.and_then(token_cache::get).filter(|known| counts(known, keys.serial)) {
            return Ok(known.payload.clone());
        }
        let (parsed, algorithm) = self.parse(token)?;
        let signed = |keys: &super::provider::Keys| {
            keys.matching(algorithm, parsed.key_id()).iter().any(|key| parsed.is_signed_by(key))
        };
        if signed(&keys) {
            return Ok(remember(token, parsed.payload, algorithm, keys.serial));
        }
        // The provider may have a new key since.
        let known = keys.serial;
        let keys = self.provider.keys(true).await?;
        if keys.serial != known && signed(&keys) {
            return Ok(remember(token, parsed.payload, algorithm, keys.serial));
        }
        Err("jwt signature verification failed".to_owned())
    }

    /// The token, if it is signed in a way that is acceptable here: never unsigned, never with a shared secret.
    fn parse<'a>(&self, token: &'a str) -> Result<(Token<'a>, Algorithm), String> {
        let parsed = Token::parse(token.as_bytes())?;
        let name = parsed.algorithm().unwrap_or_default();
        if !self.expects(name) {
            return Err(format!("token is signed by unexpected algorithm \"{name}\""));
        }
        let algorithm = Algorithm::of(name).filter(|algorithm| !algorithm.is_hmac());
        let algorithm =
            algorithm.ok_or_else(|| format!("token is signed by unsupported algorithm \"{name}\""))?;
        Ok((parsed, algorithm))
    }

    pub(crate) fn expects(&self, algorithm: &str) -> bool {
        self.conf.token_signing_alg_values_expected.as_deref().is_none_or(|expected| expected == algorithm)
    }

    async fn introspect(&self, request: &Request, token: &str) -> Result<Value, String> {
        let names = self.conf.introspection_addon_headers.iter();
        // Upstreams that fold signs would see a field that the provider was not asked about.
        if let Some(name) = names.clone().find(|name| request.head.headers.has_other_spelling(name)) {
            return Err(format!("header {name} appears under another spelling as well"));
        }
        let headers: Vec<(String, Vec<u8>)> = names.flat_map(|name| auth::lines(request, name)).collect();
        let key = introspection_key(token, &headers);
        if let Some((known, until)) = self.introspections.lock().get(&key)
            && Instant::now() < *until
        {
            return Ok((**known).clone());
        }
        let url = match &self.conf.introspection_endpoint {
            Some(url) => url.clone(),
            None => self.provider.endpoint("introspection_endpoint").await?,
        };
        let method = &self.conf.introspection_endpoint_auth_method;
        let fields = vec![("token", token.to_owned())];
        let answer = self.client.post_for_json(&self.provider, &url, method, fields, headers).await?;
        // RFC 7662, section 2.2: a boolean. The text "false" must not count as true.
        if answer.get("active") != Some(&Value::Bool(true)) {
            return Err("invalid token".to_owned());
        }
        // A provider that is late to notice does not prolong a token.
        check_times(&answer, now_seconds())?;
        if let Some(lifetime) = self.introspection_lifetime(&answer) {
            let mut known = self.introspections.lock();
            if known.len() >= MAX_INTROSPECTIONS {
                let now = Instant::now();
                known.retain(|_, (_, until)| now < *until);
                if known.len() >= MAX_INTROSPECTIONS {
                    known.clear();
                }
            }
            known.insert(key, (Arc::new(answer.clone()), Instant::now() + lifetime));
        }
        Ok(answer)
    }

    /// How long an answer holds: as long as its expiry claim says, or shorter if so configured.
    fn introspection_lifetime(&self, answer: &Value) -> Option<Duration> {
        /// Nothing holds longer than a day.
        const LONGEST_SECONDS: i64 = 86_400;
        let claim = self.conf.introspection_expiry_claim.as_deref().unwrap_or("exp");
        let mut seconds = answer.get(claim)?.as_f64()? as i64;
        if claim == "exp" {
            seconds -= now_seconds();
        }
        if self.conf.introspection_interval > 0 {
            seconds = seconds.min(self.conf.introspection_interval);
        }
        let seconds = seconds.min(LONGEST_SECONDS);
        u64::try_from(seconds).ok().filter(|seconds| *seconds > 0).map(Duration::from_secs)
    }

    /// Scopes and audience: what the token allows, beyond being genuine.
    pub(crate) fn check_authorized(&self, claims: &Value) -> Result<(), Box<Reply>> {
        let refuse = |message: &str| {
            failed(message);
            Err(Box::new(Reply::bytes(403, json!({ "error": message }).to_string())))
        };
        if let Some(required) = &self.conf.required_scopes {
            let granted = claims.get("scope").and_then(Value::as_str).unwrap_or_default();
            if !has_scopes(granted, required) {
                return refuse(&format!("required scopes {} not present", required.join(", ")));
            }
        }
        self.check_audience(claims).or_else(refuse)
    }

    pub(crate) fn check_audience(&self, claims: &Value) -> Result<(), &'static str> {
        let audience = &self.conf.claim_validator.audience;
        let value = claims.get(audience.claim.as_deref().unwrap_or("aud")).filter(|value| !value.is_null());
        if value.is_none() && (audience.required || audience.match_with_client_id) {
            return Err("required audience claim not present");
        }
        let id = self.conf.client_id.as_str();
        let matches = match value {
            Some(Value::Array(values)) => values.iter().any(|value| value.as_str() == Some(id)),
            value => value.and_then(Value::as_str) == Some(id),
        };
        if audience.match_with_client_id && !matches {
            return Err("mismatched audience");
        }
        Ok(())
    }
}

fn remember(token: &str, payload: Value, algorithm: Algorithm, serial: u64) -> Value {
    let verified = std::rc::Rc::new(Verified { payload: payload.clone(), algorithm, key_serial: serial });
    token_cache::put(token.as_bytes().to_vec(), &verified);
    payload
}

pub(crate) fn has_scopes(granted: &str, required: &[String]) -> bool {
    required.iter().all(|scope| granted.split_whitespace().any(|granted| granted == scope))
}

/// `exp` and `nbf`, when they are there.
pub(super) fn check_times(claims: &Value, now_seconds: i64) -> Result<(), String> {
    let claim = |name: &str| match claims.get(name) {
        None => Ok(None),
        Some(value) => value.as_f64().map(Some).ok_or_else(|| format!("claim '{name}' is not a number")),
    };
    if claim("exp")?.is_some_and(|exp| exp < now_seconds as f64) {
        return Err("JWT expired".to_owned());
    }
    if claim("nbf")?.is_some_and(|nbf| nbf > now_seconds as f64) {
        return Err("JWT is not valid yet".to_owned());
    }
    Ok(())
}

/// The base64 form in which claims go upstream.
pub(crate) fn header_value(value: &Value) -> String {
    nginx_base64::encode(value.to_string())
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use tidegate_model::schema::Schema;

    use super::{super::making::relying_party, *};

    fn checks_again(ignores_cache: bool) -> Result<Value, String> {
        let mut conf = json!({
            "client_id": "c", "discovery": "http://idp.test", "bearer_only": true,
            "public_key": "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA9PdGVALrrBX4oX5t9DKb5JHYx7XRb0RXU42r0FVO2sA=\n-----END PUBLIC KEY-----",
            "jwt_verification_cache_ignore": ignores_cache,
        });
        let schema = serde_json::from_str(include_str!("../openid_connect.json")).expect("JSON");
        Schema::compile(&schema)?.check(&mut conf).expect("it fits");
        let party = relying_party(&conf)?;
        // It is not signed: only what was remembered lets it in.
        let token = format!("{}.e30.c2ln", tidegate_clients::nginx_base64::encode_url(r#"{"alg":"EdDSA"}"#));
        let known = Verified {
            payload: json!({"sub": "known"}),
            algorithm: party.public_keys[0].0,
            key_serial: party.serial,
        };
        token_cache::put(token.clone().into_bytes(), &Rc::new(known));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(party.verified_claims(&token))
    }

    #[test]
    fn a_known_token_is_checked_again_where_the_cache_is_ignored() {
        assert_eq!(checks_again(false), Ok(json!({"sub": "known"})));
        assert_eq!(checks_again(true), Err("jwt signature verification failed".to_owned()));
    }

    #[test]
    fn times() {
        let cases = [
            (json!({}), true),
            (json!({"exp": 100}), true),
            (json!({"exp": 99}), false),
            (json!({"exp": "100"}), false),
            (json!({"exp": null}), false),
            (json!({"nbf": 100}), true),
            (json!({"nbf": 101}), false),
        ];
        for (claims, expected) in cases {
            assert_eq!(check_times(&claims, 100).is_ok(), expected, "{claims}");
        }
    }

    #[test]
    fn scopes() {
        let required = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        assert!(has_scopes("read  admin", &required(&["admin"])));
        assert!(!has_scopes("administrator", &required(&["admin"])));
        assert!(has_scopes("", &required(&[])));
    }
}
