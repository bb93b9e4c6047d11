//! How Lua writes values: type names, numbers, quoted strings. Messages of APISIX contain all three.

use serde_json::Value;

/// `type(value)`; JSON null is a light userdata.
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "userdata",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) | Value::Object(_) => "table",
    }
}

/// An empty table is a list or an object.
pub fn is_empty(value: &Value) -> bool {
    value.as_array().is_some_and(Vec::is_empty) || value.as_object().is_some_and(serde_json::Map::is_empty)
}

/// `tostring(number)`, which is C's `%.14g`.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        return "nan".into();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf".into() } else { "-inf".into() };
    }
    if value == 0.0 {
        return if value.is_sign_negative() { "-0".into() } else { "0".into() };
    }
    let scientific = format!("{value:.13e}");
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..14).contains(&exponent) {
        let decimals = usize::try_from(13 - exponent).unwrap_or(0);
        return without_trailing_zeros(&format!("{value:.decimals$}")).to_owned();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_trailing_zeros(mantissa), exponent.abs())
}

/// `string.format("%q", text)`.
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\\n"),
            '\r' => out.push_str("\\r"),
            '\0' => out.push_str("\\000"),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

/// `tostring(value)` for values that can be an id or appear in a message: strings bare, numbers as Lua writes
/// them.
pub fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Number(value) => number(value.as_f64().unwrap_or(f64::NAN)),
        other => other.to_string(),
    }
}

/// Whole numbers that were written with a fraction or an exponent (`2.0`, `1e3`) become integers: to Lua they are the
/// same. A number beyond 64 bits stays unchanged.
pub fn whole_numbers(value: &mut Value) {
    const BEYOND: f64 = 9_223_372_036_854_775_808.0;
    match value {
        Value::Number(number) if number.is_f64() => {
            let whole = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < BEYOND);
            if let Some(float) = whole {
                #[expect(clippy::cast_possible_truncation, reason = "whole, and within the range")]
                let whole = float as i64;
                *value = Value::from(whole);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(whole_numbers),
        Value::Object(entries) => entries.values_mut().for_each(whole_numbers),
        _ => {}
    }
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_look_like_luas() {
        for (value, text) in [
            (1.0, "1"),
            (-1.0, "-1"),
            (0.1, "0.1"),
            (1e14, "1e+14"),
            (123_456_789.0, "123456789"),
            (1.5e-7, "1.5e-07"),
            (0.0, "0"),
            (65536.5, "65536.5"),
            (99_999_999_999_999.0, "99999999999999"),
        ] {
            assert_eq!(super::number(value), text);
        }
    }
}
