//! What the servers of all registries are asked with, and how their answers are read.

use std::time::Duration;

use serde_json::Value;
use tidegate_clients::http::{Endpoint, KeptClient, KeptResponse};

/// A longer answer is an error. The list of all services of a large installation has some ten megabytes.
const MAX_BODY_BYTES: usize = 256 << 20;

/// Values in it: 50,000 instances with 20 each. `[1,1,…]` takes 36 times its length in memory.
const MAX_VALUES: usize = 1_000_000;

/// What a registry says, if it is not too much.
pub(crate) fn document(text: &[u8]) -> Result<Value, String> {
    tidegate_model::json::parse_within(text, MAX_VALUES).map_err(|fault| fault.to_string())
}

/// A client of one server of a registry.
pub(crate) fn client(endpoint: Endpoint, verify: bool, connect_ms: u64, read_ms: u64) -> KeptClient {
    KeptClient::new(endpoint, verify, [connect_ms, read_ms].map(Duration::from_millis), MAX_BODY_BYTES)
}

/// The document that an answer is.
pub(crate) fn json(answer: &KeptResponse) -> Result<Value, String> {
    document(&answer.body).map_err(|reason| format!("cannot read the response: {reason}"))
}

/// The document of an answer with status 200.
pub(crate) fn good(answer: &KeptResponse) -> Result<Value, String> {
    if answer.status != 200 {
        return Err(format!("status {}", answer.status));
    }
    json(answer)
}

/// `user:password` of a URL that has it, and the URL without.
pub(crate) fn split_user(url: &str) -> (Option<&str>, String) {
    let Some((scheme, rest)) = url.split_once("://") else { return (None, url.to_owned()) };
    match rest.rsplit_once('@') {
        Some((user, host)) => (Some(user), format!("{scheme}://{host}")),
        None => (None, url.to_owned()),
    }
}

/// Weights come as integers, fractions and texts. A fraction that is not nothing counts as one at least.
pub(crate) fn weight(value: Option<&Value>, default: u32) -> u32 {
    let number = match value {
        Some(Value::Number(number)) => number.as_f64(),
        Some(Value::String(text)) => text.trim().parse().ok(),
        _ => None,
    };
    match number {
        Some(number) if number > 0.0 => number.round().clamp(1.0, f64::from(u32::MAX)) as u32,
        Some(number) if number <= 0.0 => 0,
        _ => default,
    }
}

pub(crate) fn port(value: Option<&Value>) -> Option<u16> {
    match value? {
        Value::Number(number) => u16::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn weights() {
        for (value, expected) in [
            (json!(3), 3),
            (json!(0.2), 1),
            (json!(1.0), 1),
            (json!("20"), 20),
            (json!(0), 0),
            (json!(-1), 0),
            (json!("x"), 7),
            (json!(null), 7),
            (json!(1e30), u32::MAX),
        ] {
            assert_eq!(weight(Some(&value), 7), expected, "{value}");
        }
    }

    #[test]
    fn users_of_urls() {
        assert_eq!(split_user("http://a:b@c:1"), (Some("a:b"), "http://c:1".to_owned()));
        assert_eq!(split_user("http://c:1"), (None, "http://c:1".to_owned()));
    }
}
