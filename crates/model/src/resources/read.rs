//! Reading what Lua would have taken: numbers as ids, `{}` for an empty list, `2.0` for 2.

use serde::{Deserialize, Deserializer, de::DeserializeOwned, de::Error};
use serde_json::{Map, Value};

use crate::schema::lua;

pub(super) fn id<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(None),
        value @ (Value::String(_) | Value::Number(_)) => Ok(Some(lua::text(&value))),
        _ => Err(D::Error::custom("an id is a string or a number")),
    }
}

pub(super) fn list<'de, T, D>(deserializer: D) -> Result<Vec<T>, D::Error>
where
    T: DeserializeOwned,
    D: Deserializer<'de>,
{
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(Vec::new()),
        Value::Object(entries) if entries.is_empty() => Ok(Vec::new()),
        value => serde_json::from_value(value).map_err(D::Error::custom),
    }
}

pub(super) fn table<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Map<String, Value>, D::Error> {
    match Value::deserialize(deserializer)? {
        Value::Null => Ok(Map::new()),
        Value::Array(items) if items.is_empty() => Ok(Map::new()),
        Value::Object(entries) => Ok(entries),
        _ => Err(D::Error::custom("expected an object")),
    }
}

/// Whole numbers that were written with a fraction (`2.0`) become integers.
pub(super) fn with_lua_numbers(value: &Value) -> Value {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match value {
        Value::Number(number) if number.is_f64() => match number.as_f64() {
            #[expect(clippy::cast_possible_truncation, reason = "whole and in the exact range")]
            Some(float) if float.fract() == 0.0 && float.abs() < EXACT => Value::from(float as i64),
            _ => value.clone(),
        },
        Value::Array(items) => items.iter().map(with_lua_numbers).collect(),
        Value::Object(entries) => Value::Object(
            entries.iter().map(|(name, value)| (name.clone(), with_lua_numbers(value))).collect(),
        ),
        _ => value.clone(),
    }
}

pub(super) fn enabled() -> u8 {
    1
}

pub(super) fn hour() -> u64 {
    3600
}

pub(super) fn one() -> u32 {
    1
}

pub(super) fn one_number() -> f64 {
    1.0
}

pub(super) fn server() -> String {
    "server".into()
}
