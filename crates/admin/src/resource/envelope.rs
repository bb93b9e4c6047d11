//! How objects are wrapped in answers: bare in v3, in etcd v2's `action` and `node` in v2.

use serde_json::{Map, Value, json};
use tidegate_model::{Kind, Object, PluginCatalog, mask::mask_resource};

use super::answers::{key, object_key};
use crate::{AdminApi, AdminSettings, ApiVersion, message::Request};

/// The answer to a write: the value at rest, with its secrets encrypted.
pub(super) fn written(
    api: &AdminApi,
    request: &Request,
    action: &str,
    object: (Kind, &str),
    value: &Value,
    lease: Option<u64>,
) -> Value {
    let settings = &api.settings;
    let (kind, id) = object;
    let mut value = value.clone();
    if request.is_masked() {
        // A part that was changed is shown with the rest, which its writer may not have seen.
        mask_resource(kind, id, &mut value, api.plugins().as_ref());
    } else if let Some(keyring) = &settings.keyring {
        // Fields of metadata are looked up by the plugin, which is its id.
        keyring.encrypt_resource(kind, id, &mut value, api.plugins().as_ref());
    }
    let node = json!({"key": key(settings, kind, id), "value": value});
    if settings.version == ApiVersion::V3 {
        return node;
    }
    let mut body = json!({"action": action, "node": node});
    if let (Some(lease), Some(fields)) = (lease, body.as_object_mut()) {
        fields.insert("lease_id".into(), json!(lease.to_string()));
    }
    body
}

/// The reader of an answer decides what is shown.
pub(super) struct Reader<'a> {
    pub settings: &'a AdminSettings,
    pub plugins: &'a dyn PluginCatalog,
    /// Whether secrets are hidden, as they are for keys with role viewer.
    pub masked: bool,
}

impl<'a> Reader<'a> {
    pub(super) fn of(api: &'a AdminApi, request: &Request) -> Reader<'a> {
        let masked = request.is_masked();
        Reader { settings: &api.settings, plugins: api.plugins().as_ref(), masked }
    }
}

pub(super) fn one(reader: &Reader<'_>, object: &Object) -> Value {
    let settings = reader.settings;
    match settings.version {
        ApiVersion::V3 => entry(reader, object),
        ApiVersion::V2 => {
            let node = json!({"key": object_key(settings, object), "value": shown(reader, object)});
            json!({"action": "get", "node": node})
        }
    }
}

pub(super) fn deleted(settings: &AdminSettings, key: &str) -> Value {
    let body = json!({"deleted": "1", "key": key});
    match (settings.version, body) {
        (ApiVersion::V2, Value::Object(mut fields)) => {
            fields.insert("action".into(), json!("delete"));
            fields.insert("node".into(), json!({}));
            Value::Object(fields)
        }
        (_, body) => body,
    }
}

/// An object in a list.
pub(super) fn entry(reader: &Reader<'_>, object: &Object) -> Value {
    json!({
        "key": object_key(reader.settings, object),
        "value": shown(reader, object),
        "createdIndex": object.created,
        "modifiedIndex": object.modified,
    })
}

/// The value without private keys. Those of an `ssl` resource are left out; those for upstreams are as at rest, so
/// that a value which is read, changed and written back keeps its key.
fn shown(reader: &Reader<'_>, object: &Object) -> Value {
    match (object.kind, object.value().as_ref()) {
        (Kind::Ssl, Value::Object(fields)) => {
            let public = fields.iter().filter(|(name, _)| !matches!(name.as_str(), "key" | "keys"));
            Value::Object(public.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
        }
        (kind, value) => {
            let mut value = value.clone();
            if reader.masked {
                mask_resource(kind, &object.id, &mut value, reader.plugins);
            } else if let Some(keyring) = &reader.settings.keyring {
                keyring.encrypt_private_keys(kind, &mut value);
            }
            value
        }
    }
}
