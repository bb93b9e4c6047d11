//! From checked JSON to a typed configuration.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reads a configuration that has passed its schema. A failure here means that schema and type disagree.
pub fn typed<T: DeserializeOwned>(conf: &Value) -> Result<T, String> {
    T::deserialize(conf).map_err(|error| format!("invalid configuration: {error}"))
}
