//! From checked JSON to typed values, and messages for what does not fit.
//!
//! Schemas check less than types: most have no upper bound. All code that reads a configuration reads it here, so that
//! a write is refused with the message that the compiler would log.

mod located;

use std::cell::OnceCell;

use serde::de::DeserializeOwned;
use serde_json::Value;

use self::located::Located;

/// Reads a checked value; the error names the field by its path.
pub fn typed<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    let path = OnceCell::new();
    T::deserialize(Located::root(value, &path)).map_err(|error| in_place(&error, path.into_inner()))
}

fn in_place(error: &serde_json::Error, path: Option<String>) -> String {
    let reason = in_words(&error.to_string());
    match path {
        Some(path) if !path.is_empty() => format!("field {path}: {reason}"),
        _ => reason,
    }
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
    use std::collections::BTreeMap;

    use serde::Deserialize;
    use serde_json::{Map, json};

    use super::*;

    #[derive(Debug, Deserialize)]
    #[expect(dead_code, reason = "only read")]
    struct Limits {
        code: u16,
        list: Option<Vec<i32>>,
    }

    #[derive(Debug, Deserialize, PartialEq)]
    #[serde(rename_all = "snake_case")]
    enum Way {
        Short,
        Long(u8),
        Wide { by: u8 },
        Pair(u8, u8),
    }

    #[derive(Debug, Default, Deserialize, PartialEq)]
    #[serde(deny_unknown_fields, default)]
    struct Inner {
        ways: Vec<Way>,
        names: BTreeMap<String, Option<u16>>,
        free: Value,
        pair: (u8, bool),
    }

    #[derive(Debug, Deserialize, PartialEq)]
    struct Outer {
        inner: Inner,
        #[serde(flatten)]
        rest: Map<String, Value>,
    }

    #[test]
    fn each_kind_of_type_is_read() {
        let value = json!({"inner": {
            "ways": ["short", {"long": 1}, {"wide": {"by": 2}}, {"pair": [3, 4]}],
            "names": {"a": 1, "b": null},
            "free": {"x": [1.5, true, null, -1, "text"]},
            "pair": [1, true],
        }, "more": [1, 2]});
        let names = [("a".to_owned(), Some(1)), ("b".to_owned(), None)];
        let inner = Inner {
            ways: vec![Way::Short, Way::Long(1), Way::Wide { by: 2 }, Way::Pair(3, 4)],
            names: names.into(),
            free: value["inner"]["free"].clone(),
            pair: (1, true),
        };
        let rest = Map::from_iter([("more".to_owned(), json!([1, 2]))]);
        assert_eq!(typed::<Outer>(&value), Ok(Outer { inner, rest }));
    }

    #[test]
    fn faults_name_their_place() {
        let fault = |inner: Value| typed::<Outer>(&json!({"inner": inner})).expect_err("does not fit");
        let ways = "expected one of `short`, `long`, `wide`, `pair`";
        for (inner, expected) in [
            (json!([[], {}]), "field inner: invalid type: sequence, expected struct Inner".to_owned()),
            (
                json!({"way": 1}),
                "field inner.way: unknown field `way`, expected one of `ways`, `names`, `free`, `pair`"
                    .into(),
            ),
            (
                json!({"names": {"a": 1, "b": "x"}}),
                "field inner.names.b: invalid type: string \"x\", expected u16".into(),
            ),
            (
                json!({"ways": ["short", "slow"]}),
                format!("field inner.ways[1]: unknown variant `slow`, {ways}"),
            ),
            (
                json!({"ways": [{"long": "x"}]}),
                "field inner.ways[0].long: invalid type: string \"x\", expected u8".into(),
            ),
            (
                json!({"ways": ["long"]}),
                "field inner.ways[0]: invalid type: unit variant, expected newtype variant".into(),
            ),
            (
                json!({"ways": [{"wide": 1}]}),
                "field inner.ways[0].wide: invalid type: integer `1`, expected struct variant".into(),
            ),
            (
                json!({"ways": [{}]}),
                "field inner.ways[0]: invalid value: map, expected map with a single key".into(),
            ),
            (
                json!({"ways": [1]}),
                "field inner.ways[0]: invalid type: integer `1`, expected string or map".into(),
            ),
            (
                json!({"pair": [1, true, 2]}),
                "field inner.pair: invalid length 3, expected fewer elements in array".into(),
            ),
            (json!({"pair": [1]}), "field inner.pair: invalid length 1, expected a tuple of size 2".into()),
        ] {
            assert_eq!(fault(inner), expected);
        }
        assert_eq!(typed::<Outer>(&json!({})), Err("missing field `inner`".to_owned()));
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
