//! Fields by name, as others see them: of headers, of a log format.

use serde_json::Value;

use crate::{
    encrypt::{Change, change_text},
    idle::is_text_variable,
    schema::rules::is_secret_reference,
    secret::{is_credential_field, says_credential},
    url::without_user,
};

/// Members that hold fields by name, beside those that end in `headers`.
const FIELDS_BY_NAME: [&str; 5] = ["set", "add", "authorization_params", "log_format", "log_labels"];

pub(super) fn holds_fields(name: &str) -> bool {
    name.ends_with("headers") || FIELDS_BY_NAME.contains(&name)
}

/// All texts and numbers in it.
pub(super) fn hide(value: &mut Value, change: Change<'_>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| hide(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| hide(field, change)),
        Value::Number(_) => *value = Value::from(MASK),
        value => change_text(value, change),
    }
}

/// A value, or one of several.
pub(super) fn shows_scheme(value: &Value) -> bool {
    match value {
        Value::String(text) => says_credential(text),
        Value::Array(items) => items.iter().any(shows_scheme),
        _ => false,
    }
}

/// A variable alone is the place of a secret at most: `$http_apikey`.
pub(super) fn is_variable(value: &Value) -> bool {
    const FAMILIES: [&str; 2] = ["sent_http_", "upstream_http_"];
    let name = value.as_str().and_then(|text| text.strip_prefix('$'));
    let name =
        name.map(|name| name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name));
    name.is_some_and(|name| {
        name.bytes().all(|sign| sign.is_ascii_alphanumeric() || sign == b'_')
            && (is_text_variable(name) || FAMILIES.iter().any(|family| name.starts_with(family)))
    })
}

/// The value of a field whose name does not mark it as a credential: without the credentials that are written
/// in it.
pub(super) fn shown(text: &str) -> String {
    if is_secret_reference(text) {
        return text.to_owned();
    }
    if says_credential(text) {
        return MASK.to_owned();
    }
    if text.trim_start().starts_with(['{', '[']) {
        return if holds_credential(text) { MASK.to_owned() } else { without_user(text) };
    }
    without_value(text).unwrap_or_else(|| without_user(&without_pairs(text)))
}

/// Of a field in one text, `Authorization: Basic …`.
fn without_value(text: &str) -> Option<String> {
    let (name, value) = text.split_once(':')?;
    let is_secret = is_credential_field(name) || says_credential(value);
    let is_hidden = is_secret && !is_secret_reference(value.trim());
    is_hidden.then(|| format!("{name}: {MASK}"))
}

/// Of a structure in a text.
fn holds_credential(text: &str) -> bool {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => has_credential(&value),
        // With variables in it, perhaps: its names are quoted.
        Err(_) => text.split('"').any(|word| !word.starts_with('$') && is_credential_field(word)),
    }
}

fn has_credential(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.iter().any(|(name, field)| {
            is_credential_field(name) && !is_variable(field) && !field.is_null() || has_credential(field)
        }),
        Value::Array(items) => items.iter().any(has_credential),
        Value::String(text) => says_credential(text),
        _ => false,
    }
}

/// `token=…`, alone or among others.
fn without_pairs(text: &str) -> String {
    let is_end = |sign: char| sign.is_whitespace() || matches!(sign, '&' | ';' | ',');
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while !rest.is_empty() {
        let (pair, next) = rest.split_at(rest.find(is_end).unwrap_or(rest.len()));
        match pair.split_once('=') {
            Some((name, value))
                if !name.contains('/')
                    && is_credential_field(name)
                    && !value.is_empty()
                    && !is_variable(&Value::from(value.trim_matches('"'))) =>
            {
                out.push_str(&format!("{name}={MASK}"));
            }
            _ => out.push_str(pair),
        }
        let width = next.chars().next().map_or(0, char::len_utf8);
        let (end, behind) = next.split_at(width);
        out.push_str(end);
        rest = behind;
    }
    out
}

/// Shown in place of a secret.
pub const MASK: &str = "***";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_inside_of_values() {
        for (text, expected) in [
            (r#"{"password":"S"}"#, MASK),
            (r#"[{"a":{"api_key":1}}]"#, MASK),
            (r#"{"password":$x}"#, MASK),
            (r#"{"apikey":"$http_apikey","a":1}"#, r#"{"apikey":"$http_apikey","a":1}"#),
            (r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            ("token=S", "token=***"),
            ("eyJhbGciOiJub25lIn0.e30.c2ln", MASK),
            ("a=1; session=S, b=2", "a=1; session=***, b=2"),
            ("apikey=$http_apikey", "apikey=$http_apikey"),
            ("timeout=5, max=9", "timeout=5, max=9"),
            ("text/html; charset=utf-8", "text/html; charset=utf-8"),
            ("$host$uri", "$host$uri"),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }
}
