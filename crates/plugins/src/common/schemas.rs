//! Schemas in configurations of plugins, which users write to have data of clients checked.

use serde_json::Value;
use tidegate_model::Schema;

/// The only way from such a field to a schema, at the write and at each build: what is not a sound schema is refused with
/// the field and the pointer of the fault.
pub fn compile(field: &str, schema: &Value) -> Result<Schema, String> {
    Schema::from_user(schema).map_err(|reason| format!("invalid JSON schema in \"{field}\" at {reason}"))
}

/// The parts of such a field that have no effect.
pub fn remarks(conf: &Value, fields: &[&str]) -> Vec<String> {
    let found = fields.iter().filter_map(|field| Some((field, conf.get(*field)?)));
    let texts = found.flat_map(|(field, schema)| {
        Schema::remarks(schema).into_iter().map(move |text| format!("{field} at {text}"))
    });
    texts.collect()
}
