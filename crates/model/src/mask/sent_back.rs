//! Masks in writes: from objects that were read without the right to see their secrets.

use serde_json::Value;

use super::{fields::MASK, mask_resource};
use crate::{Kind, PluginCatalog};

/// Where a mask replaces a secret, as in `plugins.key-auth.key`. In other places it is an ordinary text.
pub(crate) fn masked_place(
    kind: Kind,
    id: &str,
    value: &Value,
    catalog: &dyn PluginCatalog,
) -> Option<String> {
    if !has_mask(value) {
        return None;
    }
    // If masking again replaces another word put there, it is the place of a secret.
    let mut masked = value.clone();
    replace_masks(&mut masked);
    mask_resource(kind, id, &mut masked, catalog);
    first_equal(value, &masked, "")
}

fn has_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(MASK),
        Value::Array(items) => items.iter().any(has_mask),
        Value::Object(fields) => fields.values().any(has_mask),
        _ => false,
    }
}

fn replace_masks(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace(MASK, "hidden"),
        Value::Array(items) => items.iter_mut().for_each(replace_masks),
        Value::Object(fields) => fields.values_mut().for_each(replace_masks),
        _ => {}
    }
}

fn first_equal(sent: &Value, masked: &Value, place: &str) -> Option<String> {
    match (sent, masked) {
        (Value::String(sent), Value::String(masked)) => {
            (sent.contains(MASK) && sent == masked).then(|| place.to_owned())
        }
        (Value::Array(sent), Value::Array(masked)) => {
            let mut pairs = sent.iter().zip(masked).enumerate();
            pairs.find_map(|(index, (sent, masked))| first_equal(sent, masked, &format!("{place}[{index}]")))
        }
        (Value::Object(sent), Value::Object(masked)) => sent.iter().find_map(|(name, sent)| {
            let dot = if place.is_empty() { "" } else { "." };
            first_equal(sent, masked.get(name)?, &format!("{place}{dot}{name}"))
        }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn masks_count_in_the_places_of_secrets_only() {
        let check = |kind, value: Value, expected: Option<&str>| {
            let found = masked_place(kind, "x", &value, &crate::check::tests::Catalog);
            assert_eq!(found.as_deref(), expected, "{value}");
        };
        check(Kind::Route, json!({"desc": "***", "uri": "/***"}), None);
        check(Kind::Ssl, json!({"cert": "c", "key": "***"}), Some("key"));
        check(Kind::Secret, json!({"token": "***"}), Some("token"));
        check(
            Kind::Route,
            json!({"plugins": {"limit": {"headers": {"Authorization": "***", "Accept": "***"}}}}),
            Some("plugins.limit.headers.Authorization"),
        );
        check(Kind::Route, json!({"plugins": {"limit": {"headers": {"Accept": "***"}}}}), None);
        check(
            Kind::Route,
            json!({"plugins": {"limit": {"password": "***"}}}),
            Some("plugins.limit.password"),
        );
    }
}
