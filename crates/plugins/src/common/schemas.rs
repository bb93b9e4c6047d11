//! Schemas in configurations of plugins, which users write to have data of clients checked.

use model::Schema;
use serde_json::Value;

/// The only way from such a field to a schema, at the write and at each build: what is no sound schema is refused with
/// the field and the pointer of the fault.
pub fn compile(field: &str, schema: &Value) -> Result<Schema, String> {
    Schema::from_user(schema).map_err(|reason| format!("invalid JSON schema in \"{field}\" at {reason}"))
}
