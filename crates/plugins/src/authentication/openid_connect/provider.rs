//! What the identity provider publishes: its discovery document and its keys. Shared by all workers.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use serde_json::Value;
use tidegate_clients::{
    http::{self, ClientOptions, Endpoint, Incoming, Outgoing},
    jws::{Algorithm, VerifyingKey},
};
use tidegate_telemetry::{
    error_log::{self, Level},
    limiter::Limiter,
};

use crate::common::{
    flight::{self, Flights},
    service, token_cache,
};

/// A provider moves its endpoints rarely.
const DISCOVERY_LIFETIME: Duration = Duration::from_secs(3600);
/// A token with an unknown key id makes the keys be read again, but not more often than this.
const KEYS_MIN_AGE: Duration = Duration::from_secs(10);
/// Documents of so many providers are kept.
const MAX_DOCUMENTS: usize = 512;

/// Keys of one provider that are kept.
const MAX_KEYS: usize = 100;
/// Keys that are tried for one token.
const MAX_TRIED: usize = 10;

pub(super) struct Provider {
    pub(crate) discovery_url: String,
    pub options: ClientOptions,
    pub(crate) keys_lifetime: Duration,
}

/// The provider's keys as of one moment.
pub(super) struct Keys {
    keys: Vec<Value>,
    pub serial: u64,
    read: Instant,
}

type Documents<T> = Mutex<Option<FxHashMap<String, (T, Instant)>>>;

static DISCOVERIES: Documents<Arc<Value>> = Mutex::new(None);
static KEYS: Documents<Arc<Keys>> = Mutex::new(None);
static DISCOVERING: Flights<Arc<Value>> = Mutex::new(None);
static READING_KEYS: Flights<Arc<Keys>> = Mutex::new(None);

fn recall<T: Clone>(documents: &Documents<T>, name: &str, lifetime: Duration) -> Option<T> {
    let documents = documents.lock();
    let (document, since) = documents.as_ref()?.get(name)?;
    (since.elapsed() < lifetime).then(|| document.clone())
}

fn remember<T>(documents: &Documents<T>, name: &str, document: T) {
    let mut documents = documents.lock();
    let documents = documents.get_or_insert_default();
    if documents.len() >= MAX_DOCUMENTS && !documents.contains_key(name) {
        documents.clear();
    }
    documents.insert(name.to_owned(), (document, Instant::now()));
}

impl Provider {
    /// Documents are shared by configurations that ask for them with the same care.
    fn shared_name(&self, url: &str) -> String {
        let care = if self.options.tls.verify { "verified" } else { "unverified" };
        let endpoint = Endpoint::parse(url).ok();
        let proxy = self.options.proxies.as_ref().zip(endpoint.as_ref());
        match proxy.and_then(|(proxies, endpoint)| proxies.of(endpoint)) {
            // A proxy can answer for an http:// provider.
            Some(proxy) => format!("{care} by {} {url}", proxy.endpoint.host_header()),
            None => format!("{care} {url}"),
        }
    }

    pub(super) async fn discovery(&self) -> Result<Arc<Value>, String> {
        let url = &self.discovery_url;
        let name = self.shared_name(url);
        if let Some(document) = recall(&DISCOVERIES, &name, DISCOVERY_LIFETIME) {
            return Ok(document);
        }
        flight::join(&DISCOVERING, &name, async {
            let document = Arc::new(self.get_json(url).await?);
            if document.get("issuer").and_then(Value::as_str).is_none() {
                return Err(format!("discovery document at {url} has no issuer"));
            }
            remember(&DISCOVERIES, &name, document.clone());
            Ok(document)
        })
        .await
    }

    /// Reads the discovery document again next time, unless another was read since this one.
    pub(super) fn forget(&self, document: &Arc<Value>) {
        let mut documents = DISCOVERIES.lock();
        let Some(documents) = documents.as_mut() else { return };
        let name = self.shared_name(&self.discovery_url);
        if documents.get(&name).is_some_and(|(kept, _)| Arc::ptr_eq(kept, document)) {
            documents.remove(&name);
        }
    }

    /// An endpoint that the discovery document names.
    pub(super) async fn endpoint(&self, name: &str) -> Result<String, String> {
        let document = self.discovery().await?;
        let url = document.get(name).and_then(Value::as_str);
        url.map(str::to_owned).ok_or_else(|| format!("discovery document has no {name}"))
    }

    /// `fresh`: not from memory, unless they were read a moment ago.
    pub(super) async fn keys(&self, fresh: bool) -> Result<Arc<Keys>, String> {
        let url = self.endpoint("jwks_uri").await?;
        let name = self.shared_name(&url);
        if let Some(keys) = recall(&KEYS, &name, self.keys_lifetime)
            && (!fresh || keys.read.elapsed() < KEYS_MIN_AGE)
        {
            return Ok(keys);
        }
        flight::join(&READING_KEYS, &name, async {
            let mut document = self.get_json(&url).await?;
            let Some(Value::Array(mut keys)) = document.get_mut("keys").map(Value::take) else {
                return Err(format!("JWKS at {url} has no keys"));
            };
            keys.retain(is_public_for_signatures);
            if keys.len() > MAX_KEYS {
                static LINES: Limiter = Limiter::new(1, 10_000);
                log_limited(
                    &LINES,
                    format_args!("JWKS at {url} has {} keys; the first {MAX_KEYS} count", keys.len()),
                );
                keys.truncate(MAX_KEYS);
            }
            let keys = Arc::new(Keys { keys, serial: token_cache::next_serial(), read: Instant::now() });
            remember(&KEYS, &name, keys.clone());
            Ok(keys)
        })
        .await
    }

    pub(crate) async fn get_json(&self, url: &str) -> Result<Value, String> {
        let outgoing = Outgoing::get(Endpoint::parse(url)?).header("Accept", "application/json");
        json(url, &self.send(outgoing).await?).await
    }

    pub(super) async fn send(&self, outgoing: Outgoing) -> Result<Incoming, String> {
        let host = outgoing.endpoint.host_header();
        let answer = http::send(outgoing, &self.options).await;
        answer.map_err(|reason| format!("accessing {host} failed: {reason}"))
    }
}

/// The JSON object of a successful answer.
pub(super) async fn json(url: &str, answer: &Incoming) -> Result<Value, String> {
    if !(200..300).contains(&answer.status) {
        return Err(format!("{url} answered {}", answer.status));
    }
    let value = service::json(url, answer).await?;
    if value.is_object() { Ok(value) } else { Err(format!("{url} answered no JSON object")) }
}

impl Keys {
    /// The keys that may have signed a token: the one of its key id, or all when it names none.
    pub(super) fn matching(&self, algorithm: Algorithm, key_id: Option<&str>) -> Vec<VerifyingKey> {
        let usable = |key: &&Value| {
            let id = key.get("kid").and_then(Value::as_str);
            is_or_absent(key, "alg", algorithm.name())
                && (key_id.is_none() || id.is_none() || id == key_id)
                && is_public_for_signatures(key)
        };
        // No more than that: each one costs time.
        let mut keys = self.keys.iter().filter(usable);
        let tried = keys.by_ref().take(MAX_TRIED);
        let tried = tried.filter_map(|key| VerifyingKey::from_jwk(algorithm, key).ok()).collect();
        if keys.next().is_some() {
            static LINES: Limiter = Limiter::new(1, 10_000);
            log_limited(
                &LINES,
                format_args!(
                    "more than {MAX_TRIED} keys of a JWKS fit a token; the first {MAX_TRIED} are tried"
                ),
            );
        }
        tried
    }
}

fn is_or_absent(key: &Value, name: &str, wanted: &str) -> bool {
    key.get(name).and_then(Value::as_str).is_none_or(|value| value == wanted)
}

/// A provider's list is public: a symmetric key in it proves nothing.
fn is_public_for_signatures(key: &Value) -> bool {
    key.get("kty").and_then(Value::as_str) != Some("oct") && is_or_absent(key, "use", "sig")
}

#[cold]
fn log_limited(lines: &Limiter, what: fmt::Arguments) {
    if let Some(others) = lines.pass() {
        error_log::log(
            Level::Error,
            format_args!("openid-connect: {what}; {others} more such lines since the previous line"),
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn keys_are_chosen_by_id_use_and_type() {
        let key = |id: &str, purpose: &str, kind: &str| json!({"kid": id, "use": purpose, "kty": kind, "n": "u1SU1LfVLPHCozMxH2Mo4lgOEePzNm0tRgeLezV6ffAt0gun", "e": "AQAB", "k": "c2VjcmV0"});
        let keys = vec![
            key("a", "sig", "RSA"),
            key("b", "sig", "RSA"),
            key("c", "enc", "RSA"),
            key("d", "sig", "oct"),
        ];
        let keys = Keys { keys, serial: 1, read: Instant::now() };
        let count = |algorithm, id| keys.matching(algorithm, id).len();
        assert_eq!(count(Algorithm::Rs256, Some("a")), 1);
        assert_eq!(count(Algorithm::Rs256, None), 2);
        assert_eq!(count(Algorithm::Rs256, Some("c")), 0);
        assert_eq!(count(Algorithm::Hs256, Some("d")), 0);
    }
}
