//! What role editor may write into objects. Code and files of the machine hold the keys of the gateway, and one who chooses where a secret is
//! sent can read it: such configurations are written with role admin.

use serde_json::{Map, Value};
use tidegate_model::{Kind, PluginCatalog, mask::mask_resource, schema::is_secret_reference};

use crate::role::Role;

/// Fields of objects that are Lua.
const CODE: [&str; 2] = ["script", "filter_func"];

/// What no one sets by hand, or what is not a part of the configuration.
const OWN: [&str; 3] = ["id", "create_time", "update_time"];

/// Whether a role may replace `before` with `after`; else why not, with the remedy.
pub(crate) fn check(
    role: Role,
    (kind, id): (Kind, &str),
    before: Option<&Value>,
    after: &Value,
    catalog: &dyn PluginCatalog,
) -> Result<(), String> {
    if role == Role::Admin {
        return Ok(());
    }
    for field in CODE {
        let code = after.get(field).filter(|code| !code.is_null());
        if code.is_some() && code != before.and_then(|before| before.get(field)) {
            return Err(refusal(field, "it is code"));
        }
    }
    let hidden = before.map(|before| hidden_texts(kind, id, before, catalog)).unwrap_or_default();
    for (place, name, conf) in parts(kind, id, after) {
        let known = before.into_iter().flat_map(|before| parts(kind, id, before));
        if known.into_iter().any(|(at, _, known)| at == place && bare(known) == bare(conf)) {
            continue;
        }
        if let Some(reason) = name.and_then(|name| reason(name, conf, catalog)) {
            return Err(refusal(&place, reason));
        }
        if let Some(text) = find(conf, &is_secret_reference) {
            return Err(refusal(&place, &format!("it refers to a secret, {text}")));
        }
        if find(conf, &|text| hidden.iter().any(|hidden| hidden == text)).is_some() {
            let reason = "it changes beside a secret that stays; write the secret with it";
            return Err(refusal(&place, reason));
        }
    }
    Ok(())
}

fn refusal(place: &str, reason: &str) -> String {
    format!("{place} is not for role editor: {reason}; a key or user with role admin may write it")
}

/// The parts that are looked at each alone: place, plugin and configuration.
fn parts<'a>(kind: Kind, id: &'a str, value: &'a Value) -> Vec<(String, Option<&'a str>, &'a Value)> {
    match kind {
        Kind::Secret => return vec![(format!("secrets/{id}"), None, value)],
        Kind::PluginMetadata => return vec![(format!("plugin_metadata/{id}"), Some(id), value)],
        _ => {}
    }
    let plugins = value.get("plugins").and_then(Value::as_object).into_iter().flatten();
    plugins.map(|(name, conf)| (format!("plugins.{name}"), Some(name.as_str()), conf)).collect()
}

/// Why a plugin's configuration is for admins.
fn reason(name: &str, conf: &Value, catalog: &dyn PluginCatalog) -> Option<&'static str> {
    if conf.pointer("/_meta/pre_function").is_some() {
        return Some("_meta.pre_function is code");
    }
    // Those of streams alone run no code and open no files; others that there are not are refused by the checks.
    let facts = catalog.facts(name)?;
    let nested = (facts.nested)(conf);
    facts.for_admins.or_else(|| nested.iter().find_map(|nested| reason(nested.name, nested.conf, catalog)))
}

/// Without what each write changes.
fn bare(conf: &Value) -> Value {
    let Some(fields) = conf.as_object() else { return conf.clone() };
    let kept = fields.iter().filter(|(name, _)| !OWN.contains(&name.as_str()));
    Value::Object(kept.map(|(name, value)| (name.clone(), value.clone())).collect::<Map<_, _>>())
}

/// The texts of an object that an editor does not see.
fn hidden_texts(kind: Kind, id: &str, value: &Value, catalog: &dyn PluginCatalog) -> Vec<String> {
    let mut masked = value.clone();
    mask_resource(kind, id, &mut masked, catalog);
    let mut found = Vec::new();
    differing(value, &masked, &mut found);
    found
}

fn differing(value: &Value, masked: &Value, found: &mut Vec<String>) {
    match (value, masked) {
        (Value::Object(fields), Value::Object(masked)) => {
            fields
                .iter()
                .for_each(|(name, value)| differing(value, masked.get(name).unwrap_or(&Value::Null), found));
        }
        (Value::Array(items), Value::Array(masked)) => {
            items.iter().zip(masked).for_each(|(value, masked)| differing(value, masked, found));
        }
        (Value::String(text), _) if value != masked => found.push(text.clone()),
        (Value::Object(fields), _) => fields.values().for_each(|value| differing(value, masked, found)),
        (Value::Array(items), _) => items.iter().for_each(|value| differing(value, masked, found)),
        _ => {}
    }
}

fn find<'a>(value: &'a Value, wanted: &dyn Fn(&str) -> bool) -> Option<&'a str> {
    match value {
        Value::String(text) => wanted(text).then_some(text),
        Value::Array(items) => items.iter().find_map(|item| find(item, wanted)),
        Value::Object(fields) => fields
            .iter()
            .find_map(|(name, value)| find(value, wanted).or_else(|| wanted(name).then_some(name.as_str()))),
        _ => None,
    }
}
