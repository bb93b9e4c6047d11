//! How secrets are encrypted at rest.

use std::sync::Arc;

use serde_json::Value;
use tidegate_config::Settings;
use tidegate_model::{
    Kind,
    encrypt::{Keyring, encrypted_fields},
};
use tidegate_plugin_api::Catalog;
use tidegate_store::embedded::Hooks;
use tidegate_telemetry::error_log;

/// `None`: nothing is encrypted.
pub(super) fn keyring(settings: &Settings) -> Option<Keyring> {
    let keys = &settings.apisix.data_encryption.keyring;
    if keys.is_empty() {
        return None;
    }
    Keyring::new(keys)
        .inspect_err(|reason| {
            error_log::log(error_log::Level::Error, format_args!("apisix.data_encryption.keyring: {reason}"));
        })
        .ok()
}

/// Secret fields are encrypted in the database file only. What cannot be decrypted is not used, also where encryption has been
/// switched off: anyone who can read the file would know that secret.
pub(super) fn encryption(settings: &Settings, catalog: &Arc<Catalog>) -> Hooks {
    let fields = settings.apisix.data_encryption.enable_encrypt_fields;
    let keyring = keyring(settings);
    let is_on = keyring.is_some();
    let keyring = Arc::new(keyring.unwrap_or_else(Keyring::empty));
    let (other, catalogs) = (keyring.clone(), (catalog.clone(), catalog.clone()));
    Hooks {
        encrypt: Some(Box::new(move |kind, id, value| {
            if is_on && (fields || kind == Kind::Ssl) {
                keyring.encrypt_resource(kind, id, value, catalogs.0.as_ref());
                return false;
            }
            !encrypted_fields(kind, id, value, catalogs.0.as_ref()).is_empty()
        })),
        decrypt: Some(Box::new(move |kind, id, value| decrypt(&other, kind, id, value, &catalogs.1))),
    }
}

/// As [`encryption`] with these keys, and only for reading.
pub(super) fn decryption(keyring: &[String], catalog: &Arc<Catalog>) -> Result<Hooks, String> {
    let keyring = if keyring.is_empty() { Keyring::empty() } else { Keyring::new(keyring)? };
    let catalog = catalog.clone();
    let decrypt = move |kind, id: &str, value: &mut Value| decrypt(&keyring, kind, id, value, &catalog);
    Ok(Hooks { encrypt: None, decrypt: Some(Box::new(decrypt)) })
}

fn decrypt(
    keyring: &Keyring,
    kind: Kind,
    id: &str,
    value: &mut Value,
    catalog: &Arc<Catalog>,
) -> Result<(), String> {
    match keyring.decrypt_resource(kind, id, value, catalog.as_ref()).as_slice() {
        [] => Ok(()),
        fields => Err(format!(
            "{}: looks encrypted, and no key of apisix.data_encryption.keyring decrypts it; put the old key back \
             into the keyring, or write the object again with its secrets",
            fields.join(", ")
        )),
    }
}
