//! Checks a resource against the others: unknown ids, and keys and plugins that another resource already has.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::context::Context;
use crate::{
    Kind,
    schema::{lua, rules::is_secret_reference},
};

/// The field by which a plugin recognises a consumer; two consumers with the same one cannot be
/// distinguished.
const UNIQUE_KEYS: [(&str, &str); 7] = [
    ("app-key", "key"),
    ("key-auth", "key"),
    ("basic-auth", "username"),
    ("jwt-auth", "key"),
    ("hmac-auth", "key_id"),
    ("ldap-auth", "user_dn"),
    ("ldap-auth-advanced", "user_dn"),
];

/// The field by which this plugin recognises a consumer, where two cannot have the same.
pub fn recognised_by(plugin: &str) -> Option<&'static str> {
    UNIQUE_KEYS.iter().find(|(known, _)| *known == plugin).map(|(_, field)| *field)
}

pub(super) fn check_reference(
    context: &Context<'_>,
    conf: &Value,
    field: &str,
    kind: Kind,
) -> Result<(), String> {
    let Some(id) = conf.get(field).map(lua::text) else { return Ok(()) };
    if context.skip_references || context.references.get(kind, &id).is_some() {
        return Ok(());
    }
    let noun = kind.noun();
    Err(format!("failed to fetch {noun} info by {noun} id [{id}], response code: 404"))
}

pub(super) fn check_superior(context: &Context<'_>, id: Option<&str>, conf: &Value) -> Result<(), String> {
    let Some(superior_id) = conf.pointer("/protocol/superior_id").map(lua::text) else { return Ok(()) };
    if context.skip_references {
        return Ok(());
    }
    if id == Some(superior_id.as_str()) {
        return Err("stream route can not set itself as superior_id".into());
    }
    let superior = context.references.get(Kind::StreamRoute, &superior_id);
    let superior = superior
        .ok_or_else(|| format!("failed to fetch stream routes[{superior_id}], response code: 404"))?;
    let name = |route: &Value| route.pointer("/protocol/name").map(lua::text);
    match (name(conf), name(&superior)) {
        (Some(own), Some(superior)) if own != superior => Err(format!(
            "protocol mismatch: subordinate protocol [{own}] does not match superior protocol [{superior}]"
        )),
        _ => Ok(()),
    }
}

pub(super) fn check_global_rule(context: &Context<'_>, id: Option<&str>, conf: &Value) -> Result<(), String> {
    let Some(plugins) = conf.get("plugins").and_then(Value::as_object) else { return Ok(()) };
    let mut conflict = None;
    context.references.each(Kind::GlobalRule, &mut |other_id, other| {
        let other_plugins = other.get("plugins").and_then(Value::as_object);
        if conflict.is_none() && id != Some(other_id) {
            let shared = plugins.keys().find(|name| other_plugins.is_some_and(|set| set.contains_key(*name)));
            conflict = shared
                .map(|name| format!("plugin '{name}' already exists in global rule with id '{other_id}'"));
        }
    });
    conflict.map_or(Ok(()), Err)
}

/// One that may not be named.
const ANOTHER: &str = "another consumer";

/// A consumer does not conflict with itself and its credentials. A credential does not with itself, nor with its consumer where that
/// has the same for the plugin: so what a consumer has is moved into a credential without a moment in which nothing has it.
pub(super) fn check_duplicate_key(
    context: &Context<'_>,
    conf: &Value,
    consumer: &str,
    credential: Option<&str>,
) -> Result<(), String> {
    for (plugin, field) in UNIQUE_KEYS {
        let Some(key) = unique_key(conf, plugin, field) else { continue };
        let mut owner = None;
        context.references.each(Kind::Consumer, &mut |name, other| {
            let is_moved = || of_plugin(conf, plugin) == of_plugin(other, plugin);
            let own = name == consumer && (credential.is_none() || is_moved());
            if owner.is_none() && !own && unique_key(other, plugin, field) == Some(key) {
                owner = Some(match context.references.may_name(Kind::Consumer, name, other) {
                    true => format!("consumer: {name}"),
                    false => ANOTHER.to_owned(),
                });
            }
        });
        context.references.each(Kind::Credential, &mut |id, other| {
            let (name, own_id) = id.split_once("/credentials/").unwrap_or((id, ""));
            let own = name == consumer && credential.is_none_or(|credential| credential == own_id);
            if owner.is_none() && !own && unique_key(other, plugin, field) == Some(key) {
                owner = Some(match context.references.may_name(Kind::Credential, id, other) {
                    true => format!("credential: {own_id} of consumer: {name}"),
                    false => ANOTHER.to_owned(),
                });
            }
        });
        if let Some(owner) = owner {
            return Err(format!("duplicate {field} of plugin {plugin} found with {owner}"));
        }
    }
    Ok(())
}

/// Checks all objects of a configuration in one pass for what [`check_duplicate_key`] and [`check_global_rule`] check of one
/// object; and that every credential has its consumer. The second of two objects is named.
pub fn clashes<'a>(
    objects: impl Iterator<Item = (Kind, &'a str, &'a Value)> + Clone,
) -> Vec<(Kind, String, String)> {
    let mut clashes = Vec::new();
    let (mut keys, mut plugins) = (HashMap::new(), HashMap::new());
    let consumers: HashSet<&str> =
        objects.clone().filter(|(kind, ..)| *kind == Kind::Consumer).map(|(_, id, _)| id).collect();
    for (kind, id, conf) in objects {
        let mut clash = |message: String| clashes.push((kind, id.to_owned(), message));
        if kind == Kind::GlobalRule {
            for name in conf.get("plugins").and_then(Value::as_object).into_iter().flat_map(Map::keys) {
                if let Some(other) = plugins.insert(name.as_str(), id) {
                    clash(format!("plugin '{name}' already exists in global rule with id '{other}'"));
                }
            }
        }
        if !matches!(kind, Kind::Consumer | Kind::Credential) {
            continue;
        }
        let (consumer, credential) = match id.split_once("/credentials/") {
            Some((consumer, credential)) => (consumer, Some(credential)),
            None => (id, None),
        };
        if !consumers.contains(consumer) {
            clash(format!("consumer {consumer} not found"));
        }
        for (plugin, field) in UNIQUE_KEYS {
            let Some(key) = unique_key(conf, plugin, field) else { continue };
            let own = (consumer, credential);
            match keys.insert((plugin, key), own) {
                Some((other, credential)) if other != consumer => {
                    let owner = match credential {
                        Some(credential) => format!("credential: {credential} of consumer: {other}"),
                        None => format!("consumer: {other}"),
                    };
                    clash(format!("duplicate {field} of plugin {plugin} found with {owner}"));
                }
                _ => {}
            }
        }
    }
    clashes
}

fn of_plugin<'a>(conf: &'a Value, plugin: &str) -> Option<&'a Value> {
    conf.get("plugins")?.get(plugin)
}

fn unique_key<'a>(conf: &'a Value, plugin: &str, field: &str) -> Option<&'a str> {
    let key = of_plugin(conf, plugin)?.get(field)?.as_str()?;
    (!is_secret_reference(key)).then_some(key)
}
