//! Encryption of secret fields at rest, in the form that APISIX writes into etcd.
//!
//! AES-CBC with PKCS#7 padding whose initialisation vector is the key itself, base64. That hides values from a look
//! at the database, no more: equal values have equal texts. Kept for the sake of shared data; values in memory and
//! in the Admin API are plain.

use std::fmt;

use aws_lc_rs::{
    cipher::{
        AES_128, AES_256, DecryptionContext, EncryptionContext, PaddedBlockDecryptingKey,
        PaddedBlockEncryptingKey, UnboundCipherKey,
    },
    hmac,
    iv::FixedLength,
};
use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

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

    /// Without keys: encrypts nothing, decrypts nothing.
    pub fn empty() -> Keyring {
        Keyring { keys: Vec::new(), plugin_fields: true }
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
        let bytes = STANDARD.decode(text).ok()?;
        self.keys.iter().find_map(|key| decrypt(key, &bytes))
    }

    /// By each key that is not `published`, the one in use first: what only a holder of the key can compute, in hexadecimal digits.
    pub fn digests(&self, text: &str, published: &[&str]) -> Vec<String> {
        let own =
            self.keys.iter().filter(|key| !published.iter().any(|other| other.as_bytes() == key.as_slice()));
        own.map(|key| {
            let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, key), text.as_bytes());
            tag.as_ref().iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect()
        })
        .collect()
    }

    /// Encrypts the secret fields of a resource: plugins' `encrypt_fields`, private keys.
    pub fn encrypt_resource(&self, kind: Kind, id: &str, value: &mut Value, catalog: &dyn PluginCatalog) {
        self.encrypt_resource_but(kind, id, value, catalog, &|_| false);
    }

    /// As [`Keyring::encrypt_resource`], except for texts for which `is_sealed` is true: they are already
    /// encrypted.
    pub fn encrypt_resource_but(
        &self,
        kind: Kind,
        id: &str,
        value: &mut Value,
        catalog: &dyn PluginCatalog,
        is_sealed: &dyn Fn(&str) -> bool,
    ) {
        self.encrypt_private_keys(kind, value);
        if self.plugin_fields {
            each_plugin_field(kind, id, value, catalog, &mut |_, text| {
                if !is_sealed(text) {
                    *text = self.encrypt(text);
                }
            });
        }
    }

    /// The reverse. A text that does not decrypt stays unchanged, since it may have been stored in plain. Returns the
    /// fields whose texts look encrypted and stay so.
    pub fn decrypt_resource(
        &self,
        kind: Kind,
        id: &str,
        value: &mut Value,
        catalog: &dyn PluginCatalog,
    ) -> Vec<String> {
        let mut left = Vec::new();
        let mut decrypt = |is_read: bool, place: SecretField<'_>, text: &mut String| {
            if is_read && let Some(plain) = self.decrypt(text) {
                *text = plain;
            } else if looks_encrypted(text) {
                left.push(place.to_string());
            }
        };
        each_private_key(kind, value, &mut |place, text| {
            let is_key = self.decrypt(text).is_some_and(|plain| is_pem(&plain));
            decrypt(is_key && !is_pem(text), place, text);
        });
        each_plugin_field(kind, id, value, catalog, &mut |place, text| {
            decrypt(self.plugin_fields, place, text);
        });
        left
    }

    /// Private keys only, for answers in which all other fields may be shown.
    pub fn encrypt_private_keys(&self, kind: Kind, value: &mut Value) {
        // A text that is not PEM is encrypted already.
        each_private_key(kind, value, &mut |_, text| {
            if is_pem(text) {
                *text = self.encrypt(text);
            }
        });
    }

    /// Private keys only, as a client may send back what an answer contained.
    pub fn decrypt_private_keys(&self, kind: Kind, value: &mut Value) {
        each_private_key(kind, value, &mut |_, text| {
            if let Some(plain) = self.decrypt(text).filter(|plain| is_pem(plain) && !is_pem(text)) {
                *text = plain;
            }
        });
    }
}

/// The secret fields of a resource that look encrypted, with their texts.
pub fn encrypted_fields(
    kind: Kind,
    id: &str,
    value: &Value,
    catalog: &dyn PluginCatalog,
) -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut look = |place: SecretField<'_>, text: &mut String| {
        if looks_encrypted(text) {
            found.push((place.to_string(), text.clone()));
        }
    };
    let mut value = value.clone();
    each_private_key(kind, &mut value, &mut look);
    each_plugin_field(kind, id, &mut value, catalog, &mut look);
    found
}

/// Whether a text has the form that [`Keyring::encrypt`] makes: base64 of whole blocks, at least one. Some plain keys have
/// it too, like those of `openssl rand -base64 32`.
fn looks_encrypted(text: &str) -> bool {
    let is_of_blocks = |bytes: Vec<u8>| !bytes.is_empty() && bytes.len().is_multiple_of(BLOCK_BYTES);
    text.len() >= SHORTEST && STANDARD.decode(text).is_ok_and(is_of_blocks)
}

const BLOCK_BYTES: usize = 16;
/// Of a digest, so many are shown.
const DIGEST_BYTES: usize = 16;
/// One block in base64.
const SHORTEST: usize = 24;

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

/// The place of a secret.
#[derive(Clone, Copy)]
struct SecretField<'a> {
    plugin: Option<&'a str>,
    field: &'a str,
}

impl fmt::Display for SecretField<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.plugin {
            Some(plugin) => write!(out, "{} of plugin {plugin}", self.field),
            None => out.write_str(self.field),
        }
    }
}

/// Takes the place of a secret and its text.
type Visit<'a> = &'a mut dyn FnMut(SecretField<'_>, &mut String);

fn each_private_key(kind: Kind, value: &mut Value, visit: Visit<'_>) {
    let fields: &[&str] = match kind {
        Kind::Ssl => &["key", "keys"],
        Kind::Upstream => &["tls.client_key"],
        _ => &["upstream.tls.client_key"],
    };
    for &field in fields {
        visit_in(value, field, &mut |text| visit(SecretField { plugin: None, field }, text));
    }
}

fn each_plugin_field(kind: Kind, id: &str, value: &mut Value, catalog: &dyn PluginCatalog, visit: Visit<'_>) {
    if kind == Kind::PluginMetadata {
        for &field in fields(catalog, id) {
            visit_in(value, field, &mut |text| visit(SecretField { plugin: None, field }, text));
        }
        return;
    }
    for (name, conf) in value.get_mut("plugins").and_then(Value::as_object_mut).into_iter().flatten() {
        for &field in fields(catalog, name) {
            visit_in(conf, field, &mut |text| visit(SecretField { plugin: Some(name), field }, text));
        }
    }
}

fn is_pem(text: &str) -> bool {
    text.starts_with("---")
}

fn fields<'a>(catalog: &'a dyn PluginCatalog, plugin: &str) -> &'a [&'a str] {
    catalog.facts(plugin).map(|facts| facts.encrypt_fields).unwrap_or_default()
}

/// Follows a path like `auth.header`; lists on the way and at its end apply to each item, an object at its end to
/// each of its values.
fn visit_in(value: &mut Value, path: &str, visit: &mut dyn FnMut(&mut String)) {
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    let Some(found) = value.get_mut(name) else { return };
    match (found, rest) {
        (Value::Array(items), Some(rest)) => items.iter_mut().for_each(|item| visit_in(item, rest, visit)),
        (found, Some(rest)) => visit_in(found, rest, visit),
        (Value::Array(items), None) => items.iter_mut().for_each(|item| visit_text(item, visit)),
        (Value::Object(entries), None) => entries.values_mut().for_each(|item| visit_text(item, visit)),
        (found, None) => visit_text(found, visit),
    }
}

fn visit_text(value: &mut Value, visit: &mut dyn FnMut(&mut String)) {
    if let Value::String(text) = value {
        visit(text);
    }
}

pub(crate) type Change<'a> = &'a dyn Fn(&str) -> Option<String>;

pub(crate) fn change_text(value: &mut Value, change: Change<'_>) {
    if let Value::String(text) = value
        && let Some(changed) = change(text)
    {
        *text = changed;
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
        let plain = json!({"tls": {"client_key": "-----BEGIN PRIVATE KEY-----"}});
        let mut value = plain.clone();
        ring.encrypt_private_keys(Kind::Upstream, &mut value);
        let once = value.clone();
        assert_ne!(once, plain);
        ring.encrypt_private_keys(Kind::Upstream, &mut value);
        assert_eq!(value, once);
        ring.decrypt_private_keys(Kind::Upstream, &mut value);
        assert_eq!(value, plain);
        ring.decrypt_private_keys(Kind::Upstream, &mut value);
        assert_eq!(value, plain);
    }

    #[test]
    fn encrypted_texts_by_their_form() {
        for (text, expected) in [
            ("77+NmbYqNfN+oLm0aX5akg==", true),
            ("", false),
            ("open-sesame", false),
            ("$env://A_NAME_OF_24_LETTERS", false),
            ("0123456789abcdef01234567", false),
            // 48 bytes, as base64 has it: a plain key may look so.
            (&"0123456789abcdef".repeat(4), true),
            ("77+NmbYqNfN+oLm0aX5akg", false),
        ] {
            assert_eq!(looks_encrypted(text), expected, "{text}");
        }
    }
}
