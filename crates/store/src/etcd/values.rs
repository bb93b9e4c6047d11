//! From a key and its bytes to an object, or to the reason why there is none.

use serde_json::{Map, Value};
use tidegate_model::{Fault, Kind, Object, json};
use tidegate_telemetry::error_log::{Level, log};

use super::{Options, doubt, rpc::messages::KeyValue};
use crate::collections::{self, PluginList};

/// A value as held in memory, secrets in plain.
pub(super) struct Decoded {
    pub value: Value,
    /// Why it cannot be used.
    pub fault: Option<Box<Fault>>,
    /// Its secrets that look encrypted and do not decrypt. They count as they stand, as in APISIX: plain texts may look so.
    pub sealed: Vec<String>,
}

/// The error says why there is no object in the bytes. `before`: the object in its place so far.
pub(super) fn decode(
    options: &Options,
    kind: Kind,
    id: &str,
    bytes: &[u8],
    before: &dyn Fn() -> Option<Object>,
) -> Result<Decoded, String> {
    let (mut value, twice) = match json::parse(bytes) {
        Ok(value) => (value, None),
        // It is ambiguous which of the two was meant: the object keeps all places that it may have, and is not used.
        Err(fault @ json::Fault::Twice { .. }) => {
            let place = doubt::place(kind, bytes, before().as_ref());
            let fault = Box::new(Fault { reason: fault.to_string().into(), in_text: true, place });
            (serde_json::from_slice(bytes).unwrap_or_default(), Some(fault))
        }
        Err(fault) => return Err(format!("it should be JSON: {fault}")),
    };
    if !value.is_object() {
        return Err("it should be an object".to_owned());
    }
    let sealed = (options.decrypt)(kind, id, &mut value);
    let fault = twice.or_else(|| Some((options.check)(kind, id, &value).err()?.as_str().into()));
    Ok(Decoded { value, fault, sealed })
}

/// The object. What cannot be used, or not be read, is logged and noted in it.
pub(super) fn object(
    options: &Options,
    kind: Kind,
    id: &str,
    entry: &KeyValue,
    before: &dyn Fn() -> Option<Object>,
) -> Object {
    let (created, modified) = (revision(entry.create_revision), revision(entry.mod_revision));
    let made = |Decoded { value, fault, .. }| {
        let document = value.into();
        Object { kind, id: id.into(), document, created, modified, fault, unread: None }
    };
    let reason = match decode(options, kind, id, &entry.value, before) {
        Ok(decoded) => {
            if let Some(fault) = &decoded.fault {
                complain_of_use(kind, &entry.key, &fault.reason);
            }
            // What was read before has been logged.
            if before().is_none_or(|before| before.modified != modified) {
                warn_of_sealed(&entry.key, &decoded.sealed);
            }
            return made(decoded);
        }
        Err(reason) => reason,
    };
    if let Some(before) = before() {
        complain(&entry.key, &format!("{reason}; the last valid version stays in use"));
        return Object { unread: Some(reason.into()), ..before };
    }
    complain(&entry.key, &format!("{reason}; there is no earlier version: {}", lost(kind)));
    let fault = Box::new(Fault { reason: reason.into(), in_text: true, place: None });
    made(Decoded { value: Value::Object(Map::new()), fault: Some(fault), sealed: Vec::new() })
}

/// An object that can be read and not used.
pub(crate) fn complain_of_use(kind: Kind, key: &[u8], reason: &str) {
    match kind {
        // Without a path that can be read, its requests are not refused; the compiler says so.
        Kind::Route => {
            complain(key, &format!("{reason}; its requests are refused if a path of it can be read"))
        }
        _ => complain(key, &format!("{reason}; what it guards is refused")),
    }
}

/// What becomes of what an object guarded of which nothing can be read.
fn lost(kind: Kind) -> &'static str {
    match kind {
        Kind::Route => "what it guards is not known and NOT refused",
        _ => "what it guards is refused",
    }
}

pub(super) fn complain(key: &[u8], reason: &str) {
    let key = String::from_utf8_lossy(key);
    log(Level::Error, format_args!("failed to check item data of [{key}] err:{reason}"));
}

/// One line for each field.
pub(crate) fn warn_of_sealed(key: &[u8], fields: &[String]) {
    let key = String::from_utf8_lossy(key);
    for field in fields {
        log(
            Level::Warn,
            format_args!(
                "[{key}]: {field} looks encrypted, and no key of apisix.data_encryption.keyring decrypts it: \
                 the text in etcd itself is used as the secret; if it is encrypted, put the old key back \
                 into the keyring"
            ),
        );
    }
}

/// What is stored: the value with its secrets encrypted.
pub(super) fn encode(options: &Options, kind: Kind, id: &str, value: &Value) -> Vec<u8> {
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
pub(super) fn plugins(key: &[u8], bytes: &[u8]) -> Option<PluginList> {
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
pub(super) fn revision(number: i64) -> u64 {
    u64::try_from(number).unwrap_or(0)
}
