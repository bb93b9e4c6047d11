//! The objects of the embedded store: what they name, and those that a running gateway cannot use.
//!
//! A running gateway holds its store. Its copy of the last good configuration has the same objects, seconds behind at most.

use std::time::Duration;

use serde_json::{Map, Value};
use tidegate_clients::verbatim::Excess;
use tidegate_config::Settings;
use tidegate_store::embedded::copy;

use super::{check::Check, remedy};
use crate::{
    boot::{
        commands::{self, Unusable, fresh_copy},
        pid_file,
    },
    cli::exchange::{Bounds, get},
};

const BOUNDS: Bounds = Bounds { wait: Duration::from_secs(5), body_bytes: 16 << 20, excess: Excess::Refused };

/// All objects, as in an apisix.yaml. `Err`: they cannot be looked at, and why.
pub(super) fn document(settings: &Settings) -> Result<Value, Check> {
    let path = copy::place(&settings.files.database);
    if let Ok(Some(pid)) = pid_file::running(&settings.files.pid) {
        // Without it the copy is seconds behind at most.
        let _ = fresh_copy(&settings.files.pid, pid, BOUNDS.wait);
    }
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
    let check = |object: &Unusable| {
        let message = object.in_words();
        Check::of_message("object", &message, remedy::of(&message))
    };
    match rejected_objects(settings) {
        Ok(objects) => objects.iter().map(check).collect(),
        Err((seen, remedy)) => vec![Check::unknown("objects", seen, remedy)],
    }
}

/// Asks the running gateway for them: a reload needs the answer without a Control API, too. A program of before this command is asked
/// through that API. `Err`: it does not say, why, and what to do.
pub(in crate::cli) fn rejected_objects(settings: &Settings) -> Result<Vec<Unusable>, (String, &'static str)> {
    if let Ok(objects) = commands::unusable(&settings.files.pid, BOUNDS.wait) {
        return Ok(objects);
    }
    let Some(control) = &settings.apisix.control else {
        let seen = "the Control API of the running gateway is off: which objects it cannot use is not seen";
        let remedy = "look into the error log, or set apisix.enable_control: true";
        return Err((seen.to_owned(), remedy));
    };
    let answer = get(control, "Control API", "/v1/rejected", BOUNDS).and_then(|answer| answer.text());
    let answer = answer.and_then(|text| Ok(serde_json::from_str::<Value>(&text)?)).map_err(|error| {
        let seen = format!("the running gateway does not say which objects it cannot use: {error:#}");
        (seen, "look into its error log")
    })?;
    let list = answer.get("list").and_then(Value::as_array).into_iter().flatten();
    Ok(list
        .map(|entry| {
            let text = |name: &str| entry.get(name).and_then(Value::as_str).unwrap_or_default();
            Unusable { object: format!("{}/{}", text("kind"), text("id")), reason: text("reason").to_owned() }
        })
        .collect())
}
