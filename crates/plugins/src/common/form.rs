//! Forms in URL encoding as JSON values, in the shape of `ngx.decode_args`.

use serde_json::{Map, Value};
use tidegate_plugin_api::document::{Allowance, TooLarge};

/// Beside its name and value: its place in the list and in the table that finds it, which grow by doubling.
pub(crate) const FIELD_BYTES: usize = 2 * size_of::<Value>() + 96;

/// A name without `=` is `true`; one that comes again makes an array.
pub fn decode(body: &[u8], allowance: &Allowance) -> Result<Value, TooLarge> {
    let mut fields = Map::new();
    for (name, value) in tidegate_protocol::uri::query_pairs(body) {
        allowance.take(FIELD_BYTES + name.len() + value.map_or(0, <[u8]>::len))?;
        let text = |bytes: &[u8]| {
            String::from_utf8_lossy(&tidegate_protocol::uri::percent_decode(bytes, true)).into_owned()
        };
        let value = value.map_or(Value::Bool(true), |value| Value::String(text(value)));
        insert(&mut fields, text(name), value);
    }
    Ok(Value::Object(fields))
}

/// Adds a value; a second one of the same name makes an array.
pub fn insert(fields: &mut Map<String, Value>, name: String, value: Value) {
    match fields.get_mut(&name) {
        None => {
            fields.insert(name, value);
        }
        Some(Value::Array(values)) => values.push(value),
        Some(first) => *first = Value::Array(vec![first.take(), value]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn forms() {
        let cases = [
            ("a=1&b=x%20y", json!({"a": "1", "b": "x y"})),
            ("a=1&a=2&a=3", json!({"a": ["1", "2", "3"]})),
            ("a&b=", json!({"a": true, "b": ""})),
            ("", json!({})),
        ];
        for (body, expected) in cases {
            assert_eq!(decode(body.as_bytes(), &Allowance::new(10_000)), Ok(expected), "{body}");
        }
        let many = "a=1&".repeat(10_000);
        assert_eq!(decode(many.as_bytes(), &Allowance::new(10_000)), Err(TooLarge::Limit(10_000)));
    }
}
