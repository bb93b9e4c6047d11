//! Which value a plain (unquoted) word stands for.

use serde_json::{Number, Value};

/// The value of a plain scalar, by the rules of YAML 1.1 as APISIX's parser applies them.
pub(crate) fn resolve(text: &str) -> Value {
    match text {
        "" | "~" | "null" | "Null" | "NULL" => return Value::Null,
        "true" | "True" | "TRUE" | "yes" | "Yes" | "YES" | "on" | "On" | "ON" => return Value::Bool(true),
        "false" | "False" | "FALSE" | "no" | "No" | "NO" | "off" | "Off" | "OFF" => {
            return Value::Bool(false);
        }
        _ => {}
    }
    number(text).unwrap_or_else(|| Value::String(text.to_owned()))
}

/// The number a text spells, or `None`.
pub(crate) fn number(text: &str) -> Option<Value> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let first = unsigned.bytes().next()?;
    if !(first.is_ascii_digit() || first == b'.') {
        return None;
    }
    integer(text, unsigned).or_else(|| float(text))
}

fn integer(text: &str, unsigned: &str) -> Option<Value> {
    let (digits, radix) = if let Some(digits) = unsigned.strip_prefix("0x") {
        (digits, 16)
    } else if let Some(digits) = unsigned.strip_prefix("0o") {
        (digits, 8)
    } else if unsigned.len() > 1 && unsigned.starts_with('0') {
        (unsigned.get(1..)?, 8)
    } else {
        (unsigned, 10)
    };
    if !digits.starts_with(|first: char| first.is_digit(radix)) {
        return None;
    }
    let magnitude = i64::from_str_radix(digits, radix).ok()?;
    Some(Value::from(if text.starts_with('-') { -magnitude } else { magnitude }))
}

fn float(text: &str) -> Option<Value> {
    let plain = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
    if !plain || !text.bytes().any(|byte| byte.is_ascii_digit()) {
        return None;
    }
    Number::from_f64(text.parse().ok()?).map(Value::Number)
}
