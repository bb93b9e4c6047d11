//! What counts as the value of a secret, wherever it comes from: an environment variable, a member of JSON, a manager.

use serde_json::Value;

/// The value as it is put into a configuration. `None`: it cannot be had. An empty text would let in whoever sends an empty
/// one, and what is neither text nor number (`null`, `false`, `{}`) would make a secret that everybody can guess.
pub fn secret_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// Names with one of these in them, without `-`, `_` and case, are of credentials.
const CREDENTIALS: [&str; 8] =
    ["authorization", "cookie", "apikey", "token", "secret", "password", "passwd", "credential"];

/// Names of header fields with one of these as a word are of credentials, too: `X-Functions-Key`, `X-Auth`.
const WORDS: [&str; 10] =
    ["auth", "bearer", "jwt", "key", "pass", "pwd", "session", "sid", "sig", "signature"];

pub(crate) fn is_credential_field(name: &str) -> bool {
    let mut words = name.split(|sign: char| !sign.is_ascii_alphanumeric());
    is_credential(name) || words.any(|word| WORDS.iter().any(|known| word.eq_ignore_ascii_case(known)))
}

/// Whether the value of a header field says by itself that it is one (RFC 9110 section 11.4).
pub(crate) fn has_scheme(value: &str) -> bool {
    let scheme = value.trim_start().split(' ').next().unwrap_or_default();
    ["Basic", "Bearer", "Digest", "Token"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known) && scheme != value)
}

pub(crate) fn is_credential(name: &str) -> bool {
    let name: String = name
        .chars()
        .filter(|sign| !matches!(sign, '-' | '_'))
        .map(|sign| sign.to_ascii_lowercase())
        .collect();
    CREDENTIALS.iter().any(|credential| name.contains(credential))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn fields_of_credentials() {
        for (name, expected) in [
            ("X-Functions-Key", true),
            ("Ocp-Apim-Subscription-Key", true),
            ("X_AUTH", true),
            ("X-Vault-Token", true),
            ("X-Keyboard", false),
            ("X-Author", false),
            ("X-Env", false),
        ] {
            assert_eq!(is_credential_field(name), expected, "{name}");
        }
        for (value, expected) in
            [("Bearer x", true), (" basic eA==", true), ("Bearer", false), ("bearing x", false)]
        {
            assert_eq!(has_scheme(value), expected, "{value}");
        }
    }

    #[test]
    fn values() {
        let cases = [
            (json!("a"), Some("a")),
            (json!(" a"), Some(" a")),
            (json!(7), Some("7")),
            (json!(""), None),
            (json!(" \n"), None),
            (json!(null), None),
            (json!(false), None),
            (json!({}), None),
            (json!(["a"]), None),
        ];
        for (value, expected) in cases {
            assert_eq!(secret_text(&value).as_deref(), expected, "{value}");
        }
    }
}
