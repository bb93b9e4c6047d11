//! Authenticates consumers by a JSON web token in a header, query argument or cookie.

mod cookie;

use std::{
    rc::Rc,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use serde::Deserialize;
use serde_json::Value;
use tidegate_clients::{
    jws::{Algorithm, Token, VerifyingKey, check_public_key},
    nginx_base64,
    rsa_size::size_remark,
};
use tidegate_model::header_text::Text;
use tidegate_plugin_api::{
    AuthEntry, BuildContext, Foresight, Phases, Plugin, PluginDef, Request, SchemaKind, Step,
    definition::ConsumerKey,
};

use crate::common::{
    auth,
    conf::typed,
    token_cache::{self, Verified},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "jwt-auth",
    version: 0.1,
    priority: 2510,
    kind: Some("auth"),
    schema: include_str!("jwt_auth.json"),
    consumer_schema: Some(include_str!("jwt_auth.consumer.json")),
    encrypt_fields: &["secret"],
    phases: Phases::REWRITE,
    check,
    headers: &[("header", Text::Value), ("realm", Text::Value)],
    remarks: |conf| {
        let header = conf.get("header").and_then(Value::as_str);
        let mut found = auth::remarks_of_names(header.filter(|name| !name.is_empty()));
        found.extend(unused_key(conf));
        found.extend(useless_key(conf));
        found
    },
    build,
    consumer: Some(consumer),
    ..PluginDef::DEFAULT
};

/// Of a consumer.
fn unused_key(conf: &Value) -> Option<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let algorithm = text("algorithm").unwrap_or("HS256");
    text("public_key").filter(|_| algorithm.starts_with("HS"))?;
    Some(format!("public_key has no effect with algorithm {algorithm}, which checks tokens with secret"))
}

/// Of a consumer.
fn useless_key(conf: &Value) -> Option<String> {
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let algorithm = Algorithm::of(text("algorithm")?).filter(|algorithm| !algorithm.is_hmac())?;
    size_remark("public_key", Some(algorithm), text("public_key")?)
}

#[derive(Deserialize)]
struct JwtAuth {
    header: String,
    query: String,
    cookie: String,
    hide_credentials: bool,
    key_claim_name: String,
    store_in_ctx: bool,
    realm: String,
    anonymous_consumer: Option<String>,
    #[serde(default)]
    claims_to_verify: Vec<Claim>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Claim {
    Nbf,
    Exp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TokenSource {
    Header,
    Query,
    Cookie,
}

/// The verified payload, for other plugins (`store_in_ctx`).
#[cfg_attr(not(feature = "lua"), allow(dead_code))]
pub(crate) struct JwtPayload(pub Rc<Verified>);

/// A consumer's key.
struct Key {
    algorithm: Algorithm,
    verifying: VerifyingKey,
    lifetime_grace_period: f64,
    /// Never reused: a token verified by a key that was replaced since is verified again.
    serial: u64,
}

fn is_secret_reference(text: &str) -> bool {
    text.starts_with("$secret://") || text.get(..7).is_some_and(|head| head.eq_ignore_ascii_case("$env://"))
}

fn check(conf: &Value, kind: SchemaKind) -> Result<(), String> {
    if kind != SchemaKind::Consumer {
        return Ok(());
    }
    let text = |name: &str| conf.get(name).and_then(Value::as_str);
    let hmac = text("algorithm").unwrap_or("HS256").starts_with("HS");
    if hmac && text("secret").is_none() {
        return Err("property \"secret\" is required when using HS based algorithms".to_owned());
    }
    let secret = text("secret").unwrap_or_default();
    let encoded = conf.get("base64_secret").and_then(Value::as_bool).unwrap_or_default();
    if encoded && !is_secret_reference(secret) {
        decoded(secret)?;
    }
    if hmac {
        return Ok(());
    }
    let public_key = text("public_key").ok_or("missing valid public key")?;
    if is_secret_reference(public_key) {
        return Ok(());
    }
    check_public_key(text("algorithm").and_then(Algorithm::of), public_key)
}

/// The secret behind `base64_secret`.
fn decoded(secret: &str) -> Result<Vec<u8>, &'static str> {
    let decoded = nginx_base64::decode(secret.as_bytes())
        .ok_or("base64_secret required but the secret is not in base64 format")?;
    if decoded.is_empty() { Err("the secret behind base64_secret is empty") } else { Ok(decoded) }
}

fn build(conf: &Value, _: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    Ok(Arc::new(typed::<JwtAuth>(conf)?))
}

fn consumer(conf: &Value) -> Result<ConsumerKey, String> {
    #[derive(Deserialize)]
    struct Conf {
        key: String,
        secret: Option<String>,
        algorithm: String,
        base64_secret: bool,
        public_key: Option<String>,
        lifetime_grace_period: f64,
    }
    let conf: Conf = typed(conf)?;
    let algorithm = Algorithm::of(&conf.algorithm)
        .ok_or_else(|| format!("algorithm {} is not supported", conf.algorithm))?;
    let verifying = if algorithm.is_hmac() {
        let secret = conf.secret.ok_or("property \"secret\" is required when using HS based algorithms")?;
        let secret = match conf.base64_secret {
            false => secret.into_bytes(),
            true => decoded(&secret)?,
        };
        VerifyingKey::from_secret(algorithm, &secret)
    } else {
        VerifyingKey::from_pem(algorithm, &conf.public_key.ok_or("missing valid public key")?)
    };
    let data = Key {
        algorithm,
        verifying: verifying?,
        lifetime_grace_period: conf.lifetime_grace_period,
        serial: token_cache::next_serial(),
    };
    Ok(ConsumerKey { key: conf.key, data: Box::new(data) })
}

impl Plugin for JwtAuth {
    fn rewrite<'a>(&'a self, request: &'a mut Request) -> Step<'a> {
        let (sent, place) = match self.token(request) {
            Ok(found) => {
                let (token, place) = found.unzip();
                (token.ok_or_else(|| "Missing JWT token in request".to_owned()), place)
            }
            Err(reason) => (Err(reason), Some(TokenSource::Header)),
        };
        let found = sent.and_then(|token| self.find(request, token));
        if let Some(place) = place.filter(|_| found.is_ok() || self.anonymous_consumer.is_some()) {
            self.hide(request, place);
        }
        match found {
            Ok((entry, verified)) => {
                let in_authorization =
                    place == Some(TokenSource::Header) && self.header.eq_ignore_ascii_case("Authorization");
                if !self.hide_credentials && !in_authorization {
                    request.extensions.insert(auth::Identified);
                }
                if self.store_in_ctx {
                    request.extensions.insert(JwtPayload(verified));
                }
                request.attach(&entry);
                Step::Next
            }
            Err(reason) => match &self.anonymous_consumer {
                None => auth::unauthorized("Bearer", &self.realm, &reason),
                Some(consumer) => auth::as_anonymous(request, "jwt-auth", consumer, "Bearer", &self.realm),
            },
        }
    }

    fn foresee(&self, phase: Phases, request: &mut Request) -> Foresight {
        Foresight::by_running(self, phase, request)
    }
}

impl JwtAuth {
    fn find(&self, request: &Request, token: Vec<u8>) -> Result<(Arc<AuthEntry>, Rc<Verified>), String> {
        let known = token_cache::get(&token);
        let fresh = match &known {
            Some(_) => None,
            None => Some(Token::parse(&token).map_err(|reason| {
                auth::reason(request, format!("JWT token invalid: {reason}"), "JWT token invalid")
            })?),
        };
        let payload = match (&known, &fresh) {
            (Some(known), _) => &known.payload,
            (None, Some(fresh)) => &fresh.payload,
            (None, None) => return Err("JWT token invalid".to_owned()),
        };
        let user = match payload.get(&self.key_claim_name) {
            None | Some(Value::Bool(false)) => return Err("missing user key in JWT token".to_owned()),
            Some(value) => value.as_str().unwrap_or_default().to_owned(),
        };
        let entry = request
            .snapshot
            .consumers
            .find("jwt-auth", &user)
            .ok_or_else(|| "Invalid user key in JWT token".to_owned())?
            .clone();
        let fail = |reason: String| {
            auth::reason(request, format!("failed to verify jwt: {reason}"), "failed to verify jwt")
        };
        let key = entry.data::<Key>().ok_or_else(|| fail("the consumer has no key".to_owned()))?;
        let mut checked_before = false;
        let verified = match (known, fresh) {
            (Some(known), _) if known.key_serial == key.serial => {
                checked_before = true;
                known
            }
            (Some(_), _) => {
                let again = Token::parse(&token).map_err(&fail)?;
                Rc::new(verify(again, key).map_err(&fail)?)
            }
            (None, Some(fresh)) => Rc::new(verify(fresh, key).map_err(&fail)?),
            (None, None) => return Err(fail("no token".to_owned())),
        };
        self.check_claims(&verified.payload, key.lifetime_grace_period).map_err(&fail)?;
        if !checked_before {
            token_cache::put(token, &verified);
        }
        Ok((entry, verified))
    }

    /// The token and where it was.
    fn token(&self, request: &Request) -> Result<Option<(Vec<u8>, TokenSource)>, String> {
        if let Some(value) = auth::credentials(request, &self.header)? {
            let token = value.strip_prefix(b"Bearer ").or_else(|| value.strip_prefix(b"bearer "));
            return Ok(Some((token.unwrap_or(value).to_vec(), TokenSource::Header)));
        }
        if let Some(token) = request.arg(&self.query) {
            return Ok(Some((token, TokenSource::Query)));
        }
        Ok(request.cookie(&self.cookie).map(|token| (token.to_vec(), TokenSource::Cookie)))
    }

    /// Only once the token has served: another plugin of `multi-auth` may need the same header.
    fn hide(&self, request: &mut Request, place: TokenSource) {
        if !self.hide_credentials {
            return;
        }
        match place {
            TokenSource::Header => request.hide_header(&self.header),
            TokenSource::Query => request.remove_arg(&self.query),
            TokenSource::Cookie => cookie::remove(request, &self.cookie),
        }
    }

    /// Without a list both claims are looked at when they are there; listed ones must be there.
    fn check_claims(&self, payload: &Value, grace_seconds: f64) -> Result<(), String> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs() as f64;
        if self.claims_to_verify.is_empty() {
            return [Claim::Nbf, Claim::Exp]
                .into_iter()
                .try_for_each(|claim| check_claim(payload, claim, false, now, grace_seconds));
        }
        let mut claims = self.claims_to_verify.iter();
        claims.try_for_each(|claim| check_claim(payload, *claim, true, now, grace_seconds))
    }
}

/// The signature, and that the token does not name another algorithm than the consumer's.
fn verify(token: Token, key: &Key) -> Result<Verified, String> {
    if token.algorithm() != Some(key.algorithm.name()) {
        return Err(format!("algorithm mismatch, expected {}", key.algorithm.name()));
    }
    if !token.is_signed_by(&key.verifying) {
        return Err(format!("signature mismatch: {}", token.signature_text()));
    }
    Ok(Verified { payload: token.payload, algorithm: key.algorithm, key_serial: key.serial })
}

fn check_claim(
    payload: &Value,
    claim: Claim,
    required: bool,
    now_seconds: f64,
    grace_seconds: f64,
) -> Result<(), String> {
    let name = if claim == Claim::Nbf { "nbf" } else { "exp" };
    let value = match payload.get(name) {
        None if required => return Err(format!("claim {name} is missing")),
        None => return Ok(()),
        Some(value) => value.as_f64().ok_or_else(|| format!("claim {name} is not a number"))?,
    };
    match claim {
        Claim::Nbf if value < now_seconds + grace_seconds => Ok(()),
        Claim::Nbf => Err(format!("'nbf' claim not valid until {}", http_time(value))),
        Claim::Exp if value > now_seconds - grace_seconds => Ok(()),
        Claim::Exp => Err(format!("'exp' claim expired at {}", http_time(value))),
    }
}

fn http_time(seconds: f64) -> String {
    let at =
        std::time::Duration::try_from_secs_f64(seconds).ok().and_then(|since| UNIX_EPOCH.checked_add(since));
    at.filter(|_| seconds < 253_402_300_799.0)
        .map_or_else(|| seconds.to_string(), tidegate_plugin_api::variables::http_date)
}

#[cfg(test)]
mod tests;
