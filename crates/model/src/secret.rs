//! Which values count as a secret, from any source: an environment variable, a member of JSON, a manager.

use serde_json::Value;

/// The value to put into a configuration. `None`: there is none to use. An empty text would let in any client that sends an
/// empty one, and a value that is neither text nor number (`null`, `false`, `{}`) would make a guessable secret.
pub fn secret_text(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()).filter(|text| !text.trim().is_empty()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// How a name marks its value as a credential.
#[derive(Clone, Copy, PartialEq, Eq)]
enum As {
    /// As a part of any name, without `-`, `_` and case.
    Part,
    /// As a word of a name of a header field or an argument: `X-Functions-Key`, `X-Auth`.
    Word,
    /// As the whole name of an argument of a URL. In header fields it has other meanings: `X-Error-Code`.
    Argument,
    /// As the whole name of a member, anywhere in a configuration.
    Member,
}

/// The one list of names of credentials.
#[rustfmt::skip]
const NAMES: &[(As, &[&str])] = &[
    (As::Part, &[
        "authorization", "cookie", "apikey", "token", "secret", "password", "passwd", "passphrase", "credential", "assertion", "sessionid",
    ]),
    (As::Word, &["auth", "bearer", "hmac", "jwt", "key", "otp", "pass", "pin", "pw", "pwd", "session", "sid", "sig", "signature", "tok"]),
    (As::Argument, &["access", "code", "k"]),
    (As::Member, &[
        "client_key", "client_secret", "password", "private_key", "redis_password", "secret_access_key", "sentinel_password",
        "session_token",
    ]),
];

fn has(how: As, is_it: impl Fn(&str) -> bool) -> bool {
    NAMES.iter().filter(|(known, _)| *known == how).flat_map(|(_, names)| *names).any(|name| is_it(name))
}

/// Of a header field.
pub(crate) fn is_credential_field(name: &str) -> bool {
    let mut words = name.split(|sign: char| !sign.is_ascii_alphanumeric());
    is_credential(name) || words.any(|word| has(As::Word, |known| word.eq_ignore_ascii_case(known)))
}

/// The value of a header field as others may see it.
pub fn field_shown<'a>(name: &str, value: &'a str) -> &'a str {
    if is_credential_field(name) || says_credential(value) { "***" } else { value }
}

/// Of an argument of a URL.
pub(crate) fn is_credential_argument(name: &str) -> bool {
    is_credential_field(name) || has(As::Argument, |known| name.eq_ignore_ascii_case(known))
}

/// Of a member of a configuration.
pub(crate) fn is_secret_member(name: &str) -> bool {
    // As of a proxy: `http_proxy_authorization`.
    name.ends_with("_authorization") || has(As::Member, |known| name == known)
}

/// Whether a value is recognisable as a credential, whatever its field is called.
pub(crate) fn says_credential(value: &str) -> bool {
    has_scheme(value) || is_token(value.trim())
}

/// As in `Authorization` (RFC 9110 section 11.4).
fn has_scheme(value: &str) -> bool {
    let scheme = value.trim_start().split(' ').next().unwrap_or_default();
    ["ApiKey", "Basic", "Bearer", "Digest", "DPoP", "Negotiate", "NTLM", "Token"]
        .iter()
        .any(|known| scheme.eq_ignore_ascii_case(known) && scheme != value)
}

/// A JSON web token (RFC 7515 section 3.1, RFC 7516 section 3.1), which begins with `{"` in base64url, or a token with the
/// recognisable prefix of its issuer: GitHub, GitLab, Slack, Vault, AWS.
fn is_token(value: &str) -> bool {
    const MARKS: [&str; 9] =
        ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "xoxb-", "hvs.", "hvb.", "AKIA"];
    let is_plain =
        |part: &str| part.bytes().all(|sign| sign.is_ascii_alphanumeric() || matches!(sign, b'-' | b'_'));
    let is_json = value.starts_with("eyJ") && matches!(value.split('.').count(), 3 | 5);
    (is_json && value.split('.').all(is_plain))
        || MARKS
            .iter()
            .any(|mark| value.strip_prefix(mark).is_some_and(|rest| rest.len() >= 8 && is_plain(rest)))
}

fn is_credential(name: &str) -> bool {
    let name: String = name
        .chars()
        .filter(|sign| !matches!(sign, '-' | '_'))
        .map(|sign| sign.to_ascii_lowercase())
        .collect();
    has(As::Part, |part| name.contains(part))
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
        for (value, expected) in [
            ("Bearer x", true),
            (" basic eA==", true),
            ("Bearer", false),
            ("bearing x", false),
            ("eyJhbGciOiJub25lIn0.e30.", true),
            ("eyJ.a b.c", false),
            ("eyJ", false),
            ("hvs.CAESIJ0123", true),
            ("hvs.x", false),
            ("AKIAIOSFODNN7EXAMPLE", true),
            ("ghp_ a", false),
        ] {
            assert_eq!(says_credential(value), expected, "{value}");
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
