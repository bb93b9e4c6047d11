//! From checked JSON to a typed configuration.

use serde::de::DeserializeOwned;
use serde_json::Value;

/// How the reason begins where a configuration has passed its schema and does not fit its type: a number out of range.
pub use tidegate_plugin_api::MISFIT;

/// Reads a configuration that has passed its schema.
pub fn typed<T: DeserializeOwned>(conf: &Value) -> Result<T, String> {
    tidegate_model::typed(conf).map_err(|reason| format!("{MISFIT}: {reason}"))
}
