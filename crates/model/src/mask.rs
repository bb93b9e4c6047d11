//! Hides secrets from readers who may see a configuration but not its secrets.

mod conditions;
pub(super) mod fields;
mod messages;
mod sent_back;

use fields::{hide, holds_fields, is_variable, shows_scheme};
pub use messages::{mask_message, mask_texts};
pub(crate) use sent_back::masked_place;
use serde_json::Value;

use crate::{
    Kind, PluginCatalog,
    encrypt::{Change, change_text},
    idle::unknown,
    schema::rules::is_secret_reference,
    schemas,
    secret::{is_credential_field, is_secret_member},
    url::without_user,
};

pub use self::fields::MASK;

/// Hides what [`crate::encrypt::Keyring::encrypt_resource`] would encrypt, what has the name of a secret, credentials in
/// header fields and URLs, and those of secret managers. References (`$secret://`, `$env://`) stay: they are the place of a
/// secret, not the secret.
///
/// The one function for readers who may see a configuration but not its secrets: differences in the history, explanations,
/// the Control API, and keys with role viewer.
pub fn mask_resource(kind: Kind, id: &str, value: &mut Value, catalog: &dyn PluginCatalog) {
    let change = |text: &str| (!is_secret_reference(text)).then(|| MASK.to_owned());
    if kind == Kind::Ssl {
        hide_in(value, "key", &change);
        hide_in(value, "keys", &change);
    }
    mask_plugin_fields(kind, id, value, catalog, &change);
    mask_nested(value, catalog, &change);
    mask_unknown(kind, id, value, catalog, &change);
    mask_names(value, false, &change);
    if kind == Kind::Secret {
        for field in ["token", "secret_access_key", "session_token", "auth_config.private_key"] {
            hide_in(value, field, &change);
        }
    }
}

/// The fields that plugins declare as secret.
fn mask_plugin_fields(
    kind: Kind,
    id: &str,
    value: &mut Value,
    catalog: &dyn PluginCatalog,
    change: Change<'_>,
) {
    let fields = |plugin: &str| catalog.facts(plugin).map(|facts| facts.encrypt_fields).unwrap_or_default();
    if kind == Kind::PluginMetadata {
        fields(id).iter().for_each(|field| hide_in(value, field, change));
        return;
    }
    for (name, conf) in value.get_mut("plugins").and_then(Value::as_object_mut).into_iter().flatten() {
        fields(name).iter().for_each(|field| hide_in(conf, field, change));
    }
}

/// Hides everything at a path like `auth.header`, whatever its type: values from etcd or from a file may have any.
fn hide_in(value: &mut Value, path: &str, change: Change<'_>) {
    if let Value::Array(items) = value {
        return items.iter_mut().for_each(|item| hide_in(item, path, change));
    }
    let (name, rest) = path.split_once('.').map_or((path, None), |(name, rest)| (name, Some(rest)));
    match (value.get_mut(name), rest) {
        (None, _) => {}
        (Some(found @ (Value::Object(_) | Value::Array(_))), Some(rest)) => hide_in(found, rest, change),
        (Some(found), _) => hide(found, change),
    }
}

/// The secrets of plugins inside of others.
fn mask_nested(value: &mut Value, catalog: &dyn PluginCatalog, change: Change<'_>) {
    for (name, conf) in value.get_mut("plugins").and_then(Value::as_object_mut).into_iter().flatten() {
        let Some(facts) = catalog.facts(name) else { continue };
        // Each of multi-auth's items is a table, which its schema does not require.
        if let Some(items) = conf.get_mut("auth_plugins").and_then(Value::as_array_mut) {
            let odd = items.iter_mut().filter(|item| !item.is_object());
            odd.for_each(|item| change_all(item, change));
        }
        let nested = (facts.nested)(conf);
        let places: Vec<(String, &[&str])> = nested
            .iter()
            .filter_map(|nested| Some((pointer(&nested.path), catalog.facts(nested.name)?.encrypt_fields)))
            .collect();
        for (place, fields) in places {
            let Some(conf) = conf.pointer_mut(&place) else { continue };
            fields.iter().for_each(|field| hide_in(conf, field, change));
        }
    }
}

/// From `rules[0].actions[1]` to `/rules/0/actions/1`. Names of plugins have no dots.
fn pointer(path: &str) -> String {
    format!("/{}", path.replace('[', "/").replace(']', "").replace('.', "/"))
}

/// Hides texts of fields that are in no schema: they may be secrets with a misspelled name, and a plugin's configuration that is
/// not an object may be a secret in the wrong place.
fn mask_unknown(kind: Kind, id: &str, value: &mut Value, catalog: &dyn PluginCatalog, change: Change<'_>) {
    for place in unknown::places(kind, id, value, catalog) {
        value.pointer_mut(&place).into_iter().for_each(|found| change_all(found, change));
    }
    match value.get_mut("plugins") {
        Some(Value::Object(plugins)) => {
            for (name, conf) in plugins {
                if catalog.facts(name).is_none() || !conf.is_object() {
                    change_all(conf, change);
                }
            }
        }
        Some(plugins) => change_all(plugins, change),
        None => {}
    }
    let schema = schemas::name_of_kind(kind).and_then(schemas::document);
    let Some(known) = schema.and_then(|schema| schema.get("properties")) else { return };
    for (name, field) in value.as_object_mut().into_iter().flatten() {
        if known.get(name).is_none() && !matches!(kind, Kind::Secret | Kind::PluginMetadata) {
            change_all(field, change);
        }
    }
}

fn change_all(value: &mut Value, change: Change<'_>) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| change_all(item, change)),
        Value::Object(fields) => fields.values_mut().for_each(|field| change_all(field, change)),
        value => change_text(value, change),
    }
}

fn mask_names(value: &mut Value, in_headers: bool, change: Change<'_>) {
    match value {
        Value::Object(entries) => {
            if entries.keys().any(|name| without_user(name) != *name) {
                *entries = std::mem::take(entries)
                    .into_iter()
                    .map(|(name, item)| (without_user(&name), item))
                    .collect();
            }
            // Of a field written as `{"key": …, "value": …}`.
            let is_pair = in_headers && entries.contains_key("value");
            let is_named =
                is_pair && ["key", "name"].iter().any(|name| is_named_credential(entries.get(*name)));
            entries.iter_mut().for_each(|(name, item)| {
                let is_field = in_headers && !(is_pair && name == "key");
                let is_secret = is_named && name == "value"
                    || is_secret_member(name)
                    || is_field && !is_variable(item) && (is_credential_field(name) || shows_scheme(item));
                // A schema may have a property of such a name.
                if is_secret && (in_headers || !item.is_object()) {
                    hide(item, change);
                } else {
                    if let ("properties", Value::Object(properties)) = (name.as_str(), &mut *item) {
                        conditions::hide_in_properties(properties, change);
                    }
                    mask_names(item, in_headers || holds_fields(name), change);
                }
            });
        }
        Value::Array(items) => {
            conditions::hide_constants(items, change);
            items.iter_mut().for_each(|item| mask_names(item, in_headers, change));
        }
        Value::String(text) => {
            *text = if in_headers { fields::shown(text) } else { without_user(text) };
        }
        _ => {}
    }
}

/// Of a field written as `{"key": …, "value": …}`.
fn is_named_credential(name: Option<&Value>) -> bool {
    name.and_then(Value::as_str).is_some_and(is_credential_field)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn credentials_in_headers_and_urls() {
        let change = |text: &str| (!is_secret_reference(text)).then(|| MASK.to_owned());
        for (value, masked) in [
            (json!({"host": "http://u:p@a:1/x?b@c"}), json!({"host": "http://***@a:1/x?b@c"})),
            (json!({"brokers": ["redis://:p@a"]}), json!({"brokers": ["redis://***@a"]})),
            (json!({"uri": "http://a/b@c", "regex": ["^/(.*)", "/$1"]}), Value::Null),
            (
                json!({"headers": {"set": {"Authorization": "Basic x", "X-Api-Key": "k", "X-Env": "a"}}}),
                json!({"headers": {"set": {"Authorization": "***", "X-Api-Key": "***", "X-Env": "a"}}}),
            ),
            (
                json!({"headers": {"add": ["X-Auth-Token: t", "X-A: b"], "remove": ["Cookie"]}}),
                json!({"headers": {"add": ["X-Auth-Token: ***", "X-A: b"], "remove": ["Cookie"]}}),
            ),
            (json!({"headers": {"Authorization": "$env://TOKEN"}}), Value::Null),
            (
                json!({"break_response_headers": [{"key": "X-Api-Key", "value": "k"}, {"key": "X-Env", "value": "a"}]}),
                json!({"break_response_headers": [{"key": "X-Api-Key", "value": "***"}, {"key": "X-Env", "value": "a"}]}),
            ),
            (
                json!({"authorization_params": {"api_key": "k", "prompt": "login"}}),
                json!({"authorization_params": {"api_key": "***", "prompt": "login"}}),
            ),
            (json!({"jwt-auth": {"header": "authorization", "cookie": "jwt"}}), Value::Null),
            (
                json!({"log_format": {"apikey": "S", "k": "apikey=S", "in": {"token": "S"}, "h": "$http_apikey"}}),
                json!({"log_format": {"apikey": "***", "k": "apikey=***", "in": {"token": "***"}, "h": "$http_apikey"}}),
            ),
            (json!({"log_format": {"apikey": "$http_apikey", "token": "${arg_token}"}}), Value::Null),
            (
                json!({"headers": {"set": {"X-Json": "{\"password\":\"S\"}", "X-A": "token=S"}}}),
                json!({"headers": {"set": {"X-Json": "***", "X-A": "token=***"}}}),
            ),
        ] {
            let mut found = value.clone();
            mask_names(&mut found, false, &change);
            assert_eq!(found, if masked.is_null() { value } else { masked });
        }
    }
}
