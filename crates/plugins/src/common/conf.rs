//! From checked JSON to a typed configuration.

use serde::{Deserialize, Deserializer};
pub use tidegate_plugin_api::{MISFIT, typed};
use tidegate_protocol::FieldName;

/// The name of a header, for a field of a configuration.
pub(crate) fn field_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<FieldName, D::Error> {
    String::deserialize(deserializer).map(|name| FieldName::new(&name))
}
