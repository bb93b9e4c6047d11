//! The objects of the embedded store: what they name, and those that a running gateway cannot use.
//!
//! A running gateway holds its store. Its copy of the last good configuration has the same objects, seconds behind at most.

use std::time::Duration;

use serde_json::{Map, Value};
use tidegate_clients::verbatim::Excess;
use tidegate_config::Settings;
use tidegate_store::embedded::copy;

use super::{check::Check, remedy};
use crate::cli::exchange::{Bounds, get};

const BOUNDS: Bounds = Bounds { wait: Duration::from_secs(5), body_bytes: 16 << 20, excess: Excess::Refused };

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

/// What the running gateway says that it cannot use.
pub(super) fn rejected(settings: &Settings) -> Vec<Check> {
    let Some(control) = &settings.apisix.control else {
        let seen = "the Control API of the running gateway is off: which objects it cannot use is not seen";
        return vec![Check::unknown(
            "objects",
            seen,
            "look into the error log, or set apisix.enable_control: true",
        )];
    };
    let answer = get(control, "Control API", "/v1/rejected", BOUNDS).and_then(|answer| answer.text());
    let answer = answer.and_then(|text| Ok(serde_json::from_str::<Value>(&text)?));
    let list = match &answer {
        Ok(answer) => answer.get("list").and_then(Value::as_array),
        Err(error) => {
            let seen = format!("the running gateway does not say which objects it cannot use: {error:#}");
            return vec![Check::unknown("objects", seen, "look into its error log")];
        }
    };
    list.into_iter().flatten().map(of_rejected).collect()
}

fn of_rejected(entry: &Value) -> Check {
    let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
    let message = format!("{}/{} cannot be used: {}", text("kind"), text("id"), text("reason"));
    Check::of_message("object", &message, remedy::of(&message))
}
