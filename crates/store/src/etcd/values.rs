//! From a key and its bytes to an object, or to the reason why it is none.

use model::{Kind, Object};
use serde_json::Value;
use telemetry::error_log::{Level, log};

use super::{Options, rpc::messages::KeyValue};
use crate::collections::{self, PluginList};

/// The value as it is in memory: secrets in plain, checked.
pub fn decode(options: &Options, kind: Kind, id: &str, bytes: &[u8]) -> Result<Value, String> {
    let mut value: Value =
        serde_json::from_slice(bytes).map_err(|error| format!("it should be JSON: {error}"))?;
    if !value.is_object() {
        return Err("it should be an object".to_owned());
    }
    if let Some(decrypt) = &options.decrypt {
        decrypt(kind, id, &mut value);
    }
    (options.check)(kind, id, &value)?;
    Ok(value)
}

/// The object, or `None` after its key and the reason were logged.
pub fn object(options: &Options, kind: Kind, id: &str, entry: &KeyValue, kept: bool) -> Option<Object> {
    match decode(options, kind, id, &entry.value) {
        Ok(value) => Some(Object {
            kind,
            id: id.into(),
            document: value.into(),
            created: revision(entry.create_revision),
            modified: revision(entry.mod_revision),
        }),
        Err(reason) => {
            let outcome = if kept { "its last good version stays in force" } else { "it is left out" };
            complain(&entry.key, &format!("{reason}; {outcome}"));
            None
        }
    }
}

pub fn complain(key: &[u8], reason: &str) {
    let key = String::from_utf8_lossy(key);
    log(Level::Error, format_args!("failed to check item data of [{key}] err:{reason}"));
}

/// What is stored: the value with its secrets encrypted.
pub fn encode(options: &Options, kind: Kind, id: &str, value: &Value) -> Vec<u8> {
    match &options.encrypt {
        None => value.to_string().into_bytes(),
        Some(encrypt) => {
            let mut sealed = value.clone();
            encrypt(kind, id, &mut sealed);
            sealed.to_string().into_bytes()
        }
    }
}

/// The list of plugins as APISIX stores it: `[{"name": "cors"}, {"name": "mqtt-proxy", "stream": true}]`.
pub fn plugins(key: &[u8], bytes: &[u8]) -> Option<PluginList> {
    let list = match serde_json::from_slice::<Value>(bytes) {
        Ok(list @ Value::Array(_)) => list,
        Ok(_) => {
            complain(key, "it should be a list; the plugins stay as they are");
            return None;
        }
        Err(error) => {
            complain(key, &format!("it should be JSON: {error}; the plugins stay as they are"));
            return None;
        }
    };
    let document = serde_json::json!({ "plugins": list });
    let report: collections::Report = Box::new(|message| log(Level::Error, format_args!("{message}")));
    collections::plugins(&document, &report)
}

/// etcd counts from 1 and stays positive.
pub fn revision(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
