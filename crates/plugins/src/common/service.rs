//! How plugins ask services: their addresses, arguments of questions, and answers that are JSON.

use serde_json::Value;
use tidegate_clients::http::{Endpoint, Incoming};
use tidegate_model::schema::is_secret_reference;
use tidegate_plugin_api::answers::Lease;
use tidegate_protocol::uri::encoded_component;

use super::json;

/// `[1,1,…]` as values, in a list that grows by doubling.
const MADE_OF_A_BYTE: usize = 32;

/// Refuses an address that cannot be asked, when it is written.
pub(crate) fn check_url(conf: &Value, field: &str) -> Result<(), String> {
    match conf.get(field).and_then(Value::as_str) {
        Some(url) if !is_secret_reference(url) => {
            Endpoint::parse(url).map(|_| ()).map_err(|reason| format!("property \"{field}\": {reason}"))
        }
        _ => Ok(()),
    }
}

/// `a=1&b=2`, of a query or a form.
pub(crate) fn arguments<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let pairs = pairs.into_iter();
    let pairs =
        pairs.map(|(name, value)| format!("{}={}", encoded_component(name), encoded_component(value)));
    pairs.collect::<Vec<_>>().join("&")
}

/// The URL with arguments added.
pub(crate) fn with_arguments<'a>(url: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    match (arguments(pairs), url.contains('?')) {
        (added, _) if added.is_empty() => url.to_owned(),
        (added, true) => format!("{url}&{added}"),
        (added, false) => format!("{url}?{added}"),
    }
}

/// The JSON of an answer, whatever its status.
pub(crate) async fn json(url: &str, answer: &Incoming) -> Result<Value, String> {
    // What is made of it takes many times its length, for a moment.
    let mut lease = Lease::new(url);
    lease
        .grow_to(answer.body.len().saturating_mul(MADE_OF_A_BYTE))
        .map_err(|refused| format!("{url} answered, but {refused}"))?;
    json::of_service(answer.body.clone(), None)
        .await
        .map_err(|error| format!("{url} answered no JSON: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_with_arguments() {
        let cases: [(&str, &[(&str, &str)], &str); 3] = [
            ("https://a/b", &[], "https://a/b"),
            ("https://a/b", &[("x", "1 /"), ("y", "2")], "https://a/b?x=1%20%2F&y=2"),
            ("https://a/b?z=0", &[("x", "1")], "https://a/b?z=0&x=1"),
        ];
        for (url, pairs, expected) in cases {
            assert_eq!(with_arguments(url, pairs.iter().copied()), expected);
        }
    }
}
