//! Reads forms that Lua accepts: numbers as ids, `{}` for an empty list.

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
