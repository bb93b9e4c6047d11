//! The objects of the embedded store, and what they name.
//!
//! A running gateway holds its store. Its copy of the last good configuration has the same objects, seconds behind at most.

use serde_json::{Map, Value};
use tidegate_config::Settings;
use tidegate_store::embedded::copy;

use super::check::Check;

/// All objects, as in an apisix.yaml. `Err`: they cannot be looked at, and why.
pub(super) fn document(settings: &Settings) -> Result<Value, Check> {
    let path = copy::place(&settings.files.database);
    let kept = copy::read(&path).map_err(|reason| {
        let seen =
            format!("{} cannot be read: {reason}; what the objects name is not looked at", path.display());
        Check::unknown("objects", seen, "start the gateway, which writes it, as its user or root")
    })?;
    let mut document = Map::new();
    for record in kept.into_iter().flat_map(|kept| kept.records) {
        let object = record.object;
        let Some((name, _)) = tidegate_store::COLLECTIONS.iter().find(|(_, kind)| *kind == object.kind)
        else {
            continue;
        };
        let mut value = (*object.value()).clone();
        if let Some(fields) = value.as_object_mut() {
            fields.entry("id").or_insert_with(|| (*object.id).into());
        }
        if let Some(list) = document.entry(*name).or_insert_with(|| Value::Array(Vec::new())).as_array_mut() {
            list.push(value);
        }
    }
    Ok(Value::Object(document))
}
