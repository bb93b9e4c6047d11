//! From checked JSON to typed values, and messages for what does not fit.
//!
//! Schemas check less than types: most have no upper bound. All code that reads a configuration reads it here, so that
//! a write is refused with the message that the compiler would log.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a checked value; the error names the field by its path.
pub fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    serde_path_to_error::deserialize(value).map_err(|error| {
        let reason = in_words(&error.inner().to_string());
        match error.path().to_string().as_str() {
            "." => reason,
            path => format!("field {path}: {reason}"),
        }
    })
}

/// ``invalid value: integer `70000`, expected u16`` names a type that users do not know.
fn in_words(reason: &str) -> String {
    let found = reason.strip_prefix("invalid value: integer `");
    let found = found.or_else(|| reason.strip_prefix("invalid type: floating point `"));
    let parts = found.and_then(|rest| rest.split_once("`, expected "));
    let Some((number, (low, high))) = parts.and_then(|(number, name)| Some((number, range(name)?))) else {
        return reason.to_owned();
    };
    format!("{number} should be an integer from {low} to {high}")
}

fn range(name: &str) -> Option<(i64, u64)> {
    let signed = |low: i64, high: i64| Some((low, high.unsigned_abs()));
    match name {
        "u8" => Some((0, u8::MAX.into())),
        "u16" => Some((0, u16::MAX.into())),
        "u32" => Some((0, u32::MAX.into())),
        "u64" | "usize" => Some((0, u64::MAX)),
        "a nonzero u16" => Some((1, u16::MAX.into())),
        "a nonzero u32" => Some((1, u32::MAX.into())),
        "i32" => signed(i32::MIN.into(), i32::MAX.into()),
        "i64" => signed(i64::MIN, i64::MAX),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Limits {
        code: u16,
        list: Option<Vec<i32>>,
    }

    #[test]
    fn faults_name_field_and_range() {
        let fault = |value: Value| typed::<Limits>(&value).expect_err("out of range");
        for (value, expected) in [
            (json!({"code": 70000}), "field code: 70000 should be an integer from 0 to 65535"),
            (json!({"code": 1.5}), "field code: 1.5 should be an integer from 0 to 65535"),
            (
                json!({"code": 1, "list": [1, 4_294_967_296_u64]}),
                "field list[1]: 4294967296 should be an integer from -2147483648 to 2147483647",
            ),
            (json!({"code": "x"}), "field code: invalid type: string \"x\", expected u16"),
        ] {
            assert_eq!(fault(value), expected);
        }
    }
}
