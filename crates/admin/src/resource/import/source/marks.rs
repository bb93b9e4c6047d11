//! The labels of what an import writes: its source, and a digest of the rest.

use aws_lc_rs::digest::{SHA256, digest};
use serde_json::{Value, json};
use tidegate_config::PUBLISHED_KEYS;
use tidegate_model::{
    Kind, PluginCatalog,
    encrypt::Keyring,
    mask::{MASK, mask_resource},
};

use super::outlook::Key;
use crate::resource::transaction::diff;

pub(super) const SOURCE: &str = "imported-from";
pub(super) const DIGEST: &str = "imported-digest";

/// Of a digest's bytes, as many as no other text has by chance.
const SHOWN_BYTES: usize = 16;

/// The object with both labels, where its kind may have labels.
pub(super) fn marked(seal: &Seal<'_>, key: &Key, source: &str, value: &Value) -> Value {
    let mut value = value.clone();
    if !is_labelled(key.0) {
        return value;
    }
    let digest = seal.digests(key, &value).into_iter().next();
    if let Some(fields) = value.as_object_mut() {
        let labels = fields.entry("labels").or_insert_with(|| json!({}));
        if let Some(labels) = labels.as_object_mut() {
            labels.insert(SOURCE.to_owned(), json!(source));
            labels.insert(DIGEST.to_owned(), json!(digest));
        }
    }
    value
}

/// Makes digests. Those who may read labels must not find secrets out by trying: with a key of their own, the digest needs that;
/// without one, secrets are left out.
pub(super) struct Seal<'a> {
    pub keyring: Option<&'a Keyring>,
    pub catalog: &'a dyn PluginCatalog,
}

impl Seal<'_> {
    /// By each key of the keyring, the one in use first.
    pub(super) fn digests(&self, key: &Key, value: &Value) -> Vec<String> {
        let mut value = bare(key.0, value);
        let covered = self.with_keys(&value.to_string());
        if !covered.is_empty() {
            return covered;
        }
        mask_resource(key.0, &key.1, &mut value, self.catalog);
        vec![hex(digest(&SHA256, value.to_string().as_bytes()).as_ref())]
    }

    fn with_keys(&self, text: &str) -> Vec<String> {
        self.keyring.map(|keyring| keyring.digests(text, &PUBLISHED_KEYS)).unwrap_or_default()
    }

    pub(super) fn secrets_are_covered(&self) -> bool {
        !self.with_keys("").is_empty()
    }

    /// Whether the secrets of the first are those of the second.
    pub(super) fn secrets_are_equal(&self, key: &Key, current: &Value, wanted: &Value) -> bool {
        let differences = diff::of_object(key, Some(current), Some(wanted), self.catalog);
        let hidden =
            |entry: &Value| entry.get("before").is_some_and(|before| before.to_string().contains(MASK));
        !differences.iter().any(hidden)
    }
}

/// Without what each write changes, and without the labels of imports; in one order.
pub(super) fn bare(kind: Kind, value: &Value) -> Value {
    let mut value = value.clone();
    if let Some(fields) = value.as_object_mut() {
        if kind != Kind::PluginMetadata {
            fields.remove("create_time");
            fields.remove("update_time");
        }
        if let Some(labels) = fields.get_mut("labels").and_then(Value::as_object_mut) {
            labels.remove(SOURCE);
            labels.remove(DIGEST);
            if labels.is_empty() {
                fields.remove("labels");
            }
        }
    }
    value.sort_all_objects();
    value
}

pub(super) fn label<'a>(value: &'a Value, name: &str) -> Option<&'a str> {
    value.get("labels")?.get(name)?.as_str()
}

pub(super) fn is_labelled(kind: Kind) -> bool {
    !matches!(kind, Kind::Secret | Kind::GlobalRule | Kind::PluginMetadata | Kind::GraphqlCostDecoration)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().take(SHOWN_BYTES).map(|byte| format!("{byte:02x}")).collect()
}
