//! From a key and its bytes to an object, or to the reason why it is none.

use std::sync::Arc;

use model::{Kind, Object, json};
use serde_json::{Map, Value};
use telemetry::error_log::{Level, log};

use super::{Options, rpc::messages::KeyValue};
use crate::collections::{self, PluginList};

/// A value as it is in memory, secrets in plain.
pub struct Decoded {
    pub value: Value,
    /// Why it cannot be used.
    pub fault: Option<Arc<str>>,
}

/// The error says why there is no object in the bytes.
pub fn decode(options: &Options, kind: Kind, id: &str, bytes: &[u8]) -> Result<Decoded, String> {
    let (mut value, twice) = match json::parse(bytes) {
        Ok(value) => (value, None),
        // Which of the two was meant nobody can say: the object keeps its place, and is not used.
        Err(fault @ json::Fault::Twice { .. }) => {
            (serde_json::from_slice(bytes).unwrap_or_default(), Some(fault.to_string()))
        }
        Err(fault) => return Err(format!("it should be JSON: {fault}")),
    };
    if !value.is_object() {
        return Err("it should be an object".to_owned());
    }
    if let Some(decrypt) = &options.decrypt {
        decrypt(kind, id, &mut value);
    }
    let fault = twice.or_else(|| (options.check)(kind, id, &value).err()).map(Arc::from);
    Ok(Decoded { value, fault })
}

/// As [`decode`]. What cannot be used is logged. `None`: there is no object in it, and none is needed in its place.
pub fn admit(
    options: &Options,
    place: (Kind, &str),
    key: &[u8],
    bytes: &[u8],
    kept: bool,
) -> Option<Decoded> {
    let (kind, id) = place;
    match decode(options, kind, id, bytes) {
        Ok(decoded) => {
            if let Some(fault) = &decoded.fault {
                complain(key, &format!("{fault}; what it guards is refused"));
            }
            Some(decoded)
        }
        Err(reason) if kept => {
            complain(key, &format!("{reason}; keeping the last valid version"));
            None
        }
        // A global rule of which nothing can be read guards everything: it cannot be left out.
        Err(reason) if kind == Kind::GlobalRule => {
            complain(key, &format!("{reason}; what it guards is refused"));
            Some(Decoded { value: Value::Object(Map::new()), fault: Some(reason.into()) })
        }
        Err(reason) => {
            complain(key, &format!("{reason}; it is left out"));
            None
        }
    }
}

/// The object, or `None` after its key and the reason were logged.
pub fn object(options: &Options, kind: Kind, id: &str, entry: &KeyValue, kept: bool) -> Option<Object> {
    let Decoded { value, fault } = admit(options, (kind, id), &entry.key, &entry.value, kept)?;
    Some(Object {
        kind,
        id: id.into(),
        document: value.into(),
        created: revision(entry.create_revision),
        modified: revision(entry.mod_revision),
        fault,
    })
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
    collections::plugins(&document, &collections::Nowhere, &report)
}

/// etcd counts from 1 and stays positive.
pub fn revision(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
