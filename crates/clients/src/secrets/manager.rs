//! Shared parts of the clients of all managers.

use std::time::Duration;

use serde_json::Value;
use thiserror::Error;

use crate::http::{Body, ClientOptions, TlsWanted};

/// Why there is no value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Failure {
    /// The manager answered that it has no such value: whatever was known before is no longer true.
    #[error("{0}")]
    Missing(String),
    /// Not reached, or it refused: the value may exist.
    #[error("{0}")]
    Unavailable(String),
}

/// How long a manager may take for connecting, and again for answering.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longer than any secret.
const MAX_ANSWER: usize = 1 << 20;

/// More parts than any secret has.
const MAX_VALUES: usize = 65_536;

pub(super) fn options(verify: bool) -> ClientOptions {
    ClientOptions {
        timeout: TIMEOUT,
        tls: TlsWanted { verify, client: None },
        body: Body::Whole(MAX_ANSWER),
        ..ClientOptions::default()
    }
}

pub(super) fn text<'a>(conf: &'a Value, name: &str) -> Option<&'a str> {
    conf.get(name).and_then(Value::as_str)
}

pub(super) fn need<'a>(conf: &'a Value, name: &str) -> Result<&'a str, Failure> {
    text(conf, name).ok_or_else(|| Failure::Unavailable(format!("property \"{name}\" is required")))
}

pub(super) fn json(body: &[u8]) -> Result<Value, Failure> {
    tidegate_model::json::parse_within(body, MAX_VALUES)
        .map_err(|fault| Failure::Unavailable(format!("failed to decode result: {fault}")))
}

/// A member in the form used in a configuration. One that is empty, or neither text nor number, counts as
/// missing.
pub(super) fn member(object: &Value, name: &str) -> Option<String> {
    tidegate_model::secret_text(object.get(name)?)
}

/// A member of a secret that is JSON itself.
pub(super) fn member_of_text(secret: &str, name: &str) -> Result<String, Failure> {
    let missing = |reason: String| Failure::Missing(reason);
    let value = tidegate_model::json::parse_within(secret.as_bytes(), MAX_VALUES)
        .map_err(|error| missing(format!("failed to decode result, the secret is not JSON: {error}")))?;
    member(&value, name).ok_or_else(|| missing(format!("the secret has no member {name} with a text")))
}
