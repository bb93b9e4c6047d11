//! Encryption of secret fields at rest, in the form that APISIX writes into etcd.
//!
//! AES-CBC with PKCS#7 padding whose initialisation vector is the key itself, base64. That hides values from a look
//! at the database, no more: equal values have equal texts. Kept for the sake of shared data; values in memory and
//! in the Admin API are plain.

use aws_lc_rs::{
    cipher::{
        AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
        PaddedBlockEncryptingKey, UnboundCipherKey,
    },
    iv::FixedLength,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Map, Value};

use crate::{Kind, PluginCatalog};

/// The keys of `apisix.data_encryption.keyring`: the first encrypts, all are tried to decrypt.
pub struct Keyring {
    keys: Vec<Vec<u8>>,
    plugin_fields: bool,
}

impl Keyring {
    /// Keys have 16 or 32 bytes; the error counts the bytes of the first one that has not.
    pub fn new<K: AsRef<[u8]>>(keys: &[K]) -> Result<Keyring, String> {
        let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.as_ref().to_vec()).collect();
        match keys.iter().find(|key| !matches!(key.len(), 16 | 32)) {
            Some(key) => {
                Err(format!("data_encryption.keyring: a key needs 16 or 32 bytes, not {}", key.len()))
            }
            None => Ok(Keyring { keys, plugin_fields: true }),
        }
    }

    /// As with `data_encryption.enable_encrypt_fields: false`: plugins' fields stay plain.
    pub fn for_private_keys_only(self) -> Keyring {
        Keyring { plugin_fields: false, ..self }
    }

    /// The text to store; `text` itself without any key.
    pub fn encrypt(&self, text: &str) -> String {
        self.keys.first().and_then(|key| encrypt(key, text)).unwrap_or_else(|| text.to_owned())
    }

    /// `None` when `text` was not written with any of the keys.
    pub fn decrypt(&self, text: &str) -> Option<String> {
        if self.keys.is_empty() {
            return Some(text.to_owned());
        }
        let bytes = STANDARD.decode(text).ok()?;
        self.keys.iter().find_map(|key| decrypt(key, &bytes))
    }

    /// Encrypts the secret fields of a resource: plugins' `encrypt_fields`, private keys.
    pub fn encrypt_resource(&self, kind: Kind, id: &str, value: &mut Value, catalog: &dyn PluginCatalog) {
        let change = |text: &str| Some(self.encrypt(text));
        each_private_key(kind, value, &change);
        if self.plugin_fields {
            each_plugin_field(kind, id, value, catalog, &change);
        }
    }

    /// The reverse; what does not decrypt stays as it is, since it may have been stored in plain.
    pub fn decrypt_resource(&self, kind: Kind, id: &str, value: &mut Value, catalog: &dyn PluginCatalog) {
        self.decrypt_private_keys(kind, value);
        if self.plugin_fields {
            each_plugin_field(kind, id, value, catalog, &|text| self.decrypt(text));
        }
    }

    /// Private keys only, for showing an object whose other fields may be seen.
    pub fn encrypt_private_keys(&self, kind: Kind, value: &mut Value) {
        each_private_key(kind, value, &|text| Some(self.encrypt(text)));
    }

    /// Private keys only, as somebody may send back what an answer contained.
    pub fn decrypt_private_keys(&self, kind: Kind, value: &mut Value) {
        each_private_key(kind, value, &|text| self.decrypt(text));
    }
}

fn encrypt(key: &[u8], text: &str) -> Option<String> {
    let vector: [u8; 16] = key.get(..16)?.try_into().ok()?;
    let cipher = if key.len() == 32 { &AES_256 } else { &AES_128 };
    let key = PaddedBlockEncryptingKey::cbc_pkcs7(UnboundCipherKey::new(cipher, key).ok()?).ok()?;
    let mut buffer = text.as_bytes().to_vec();
    let context = EncryptionContext::Iv128(FixedLength::from(vector));
    key.less_safe_encrypt(&mut buffer, context).ok()?;
    Some(STANDARD.encode(buffer))
}

fn decrypt(key: &[u8], bytes: &[u8]) -> Option<String> {
    let vector: [u8; 16] = key.get(..16)?.try_into().ok()?;
    let cipher = if key.len() == 32 { &AES_256 } else { &AES_128 };
    let key = PaddedBlockDecryptingKey::cbc_pkcs7(UnboundCipherKey::new(cipher, key).ok()?).ok()?;
    let mut buffer = bytes.to_vec();
    let plain = key.decrypt(&mut buffer, DecryptionContext::Iv128(FixedLength::from(vector))).ok()?;
    String::from_utf8(plain.to_vec()).ok()
}

pub(crate) type Change<'a> = &'a dyn Fn(&str) -> Option<String>;

fn each_private_key(kind: Kind, value: &mut Value, change: Change<'_>) {
    let change = |text: &str| private_key(text, change);
    match kind {
        Kind::Ssl => {
            change_in(value, "key", &change);
            change_in(value, "keys", &change);
        }
        Kind::Upstream => change_in(value, "tls.client_key", &change),
        _ => change_in(value, "upstream.tls.client_key", &change),
    }
}

fn each_plugin_field(
    kind: Kind,
    id: &str,
    value: &mut Value,
    catalog: &dyn PluginCatalog,
    change: Change<'_>,
) {
    if kind == Kind::PluginMetadata {
        for field in fields(catalog, id) {
            change_in(value, field, change);
        }
        return;
    }
    for (name, conf) in value.get_mut("plugins").and_then(Value::as_object_mut).into_iter().flatten() {
        for field in fields(catalog, name) {
            change_in(conf, field, change);
        }
    }
}

/// Encrypting leaves alone what is not PEM (it is encrypted already), decrypting what is.
fn private_key(text: &str, change: Change<'_>) -> Option<String> {
    let changed = change(text)?;
    (text.starts_with("---") != changed.starts_with("---")).then_some(changed)
}

fn fields<'a>(catalog: &'a dyn PluginCatalog, plugin: &str) -> &'a [&'a str] {
    catalog.facts(plugin).map(|facts| facts.encrypt_fields).unwrap_or_default()
}

/// Follows a path like `auth.header`; lists on the way and at its end apply to each item, an object at its end to
/// each of its values.
fn change_in(value: &mut Value, path: &str, change: Change<'_>) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let Some(found) = value.get_mut(name) else { return };
    match (found, rest) {
        (Value::Array(items), Some(rest)) => items.iter_mut().for_each(|item| change_in(item, rest, change)),
        (found, Some(rest)) => change_in(found, rest, change),
        (Value::Array(items), None) => items.iter_mut().for_each(|item| change_text(item, change)),
        (Value::Object(entries), None) => change_values(entries, change),
        (found, None) => change_text(found, change),
    }
}

fn change_values(entries: &mut Map<String, Value>, change: Change<'_>) {
    entries.values_mut().for_each(|value| change_text(value, change));
}

pub(crate) fn change_text(value: &mut Value, change: Change<'_>) {
    if let Value::String(text) = value
        && let Some(changed) = change(text)
    {
        *text = changed;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_with_any_key_of_the_ring() {
        let old = Keyring::new(&["edd1c9f0985e76a2"]).expect("16 bytes");
        let ring = Keyring::new(&["qeddd145sfvddff3", "edd1c9f0985e76a2"]).expect("16 bytes");
        // Known answer: what APISIX stores for basic-auth's password "bar" with its default keyring.
        assert_eq!(old.encrypt("bar"), "77+NmbYqNfN+oLm0aX5akg==");
        assert_eq!(ring.decrypt(&old.encrypt("bar")).as_deref(), Some("bar"));
        assert_eq!(ring.decrypt("plain"), None);
        assert!(Keyring::new(&["short"]).is_err());
    }

    #[test]
    fn private_keys_are_encrypted_once() {
        let ring = Keyring::new(&["qeddd145sfvddff3"]).expect("16 bytes");
        let plain = "-----BEGIN PRIVATE KEY-----";
        let once = private_key(plain, &|text| Some(ring.encrypt(text))).expect("changed");
        assert_eq!(private_key(&once, &|text| Some(ring.encrypt(text))), None);
        assert_eq!(private_key(&once, &|text| ring.decrypt(text)).as_deref(), Some(plain));
    }
}
