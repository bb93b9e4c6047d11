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
