//! A plugin's configuration, field by field with where each one comes from.

use serde_json::{Value, json};
use tidegate_model::{Kind, PluginCatalog, SchemaKind, mask::mask_resource};
use tidegate_proxy::explain::Planned;

/// The most fields that are listed for one plugin.
const MAX_FIELDS: usize = 500;

/// The object that a planned plugin is from.
pub(super) fn owner(planned: &Planned) -> String {
    format!("{}/{}", planned.instance.owner.kind.directory(), planned.instance.owner.id)
}

/// `[{path, value, from}]`: what `owner` says, and what the schema fills in. Secrets are masked.
pub(super) fn of_plugin(name: &str, conf: &Value, owner: &str, catalog: &dyn PluginCatalog) -> Vec<Value> {
    let masked = masked_plugin(name, conf, catalog);
    let mut full = conf.clone();
    // A configuration that does not pass is not used; then there is nothing to fill in either.
    let _ = catalog.check(name, SchemaKind::Plugin, &mut full);
    let full = masked_plugin(name, &full, catalog);
    list(&full, &masked, owner)
}

pub(super) fn of_metadata(name: &str, value: &Value, catalog: &dyn PluginCatalog) -> Vec<Value> {
    let mut full = value.clone();
    let _ = catalog.check(name, SchemaKind::Metadata, &mut full);
    let mask = |mut value: Value| {
        mask_resource(Kind::PluginMetadata, name, &mut value, catalog);
        value
    };
    list(&mask(full), &mask(value.clone()), &format!("plugin_metadata/{name}"))
}

fn masked_plugin(name: &str, conf: &Value, catalog: &dyn PluginCatalog) -> Value {
    let mut wrapped = json!({ "plugins": { name: conf } });
    mask_resource(Kind::Route, "", &mut wrapped, catalog);
    wrapped.get("plugins").and_then(|plugins| plugins.get(name)).cloned().unwrap_or_default()
}

fn list(full: &Value, given: &Value, owner: &str) -> Vec<Value> {
    let mut entries = Vec::new();
    walk("", full, Some(given), owner, &mut entries);
    entries
}

fn walk(path: &str, value: &Value, given: Option<&Value>, owner: &str, entries: &mut Vec<Value>) {
    if entries.len() >= MAX_FIELDS {
        return;
    }
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                let inner = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                walk(&inner, value, given.and_then(|given| given.get(name)), owner, entries);
            }
        }
        Value::Array(items) if items.iter().any(Value::is_object) => {
            for (index, value) in items.iter().enumerate() {
                let given = given.and_then(|given| given.get(index));
                walk(&format!("{path}/{index}"), value, given, owner, entries);
            }
        }
        _ => {
            let from = if given.is_some() { owner } else { "default" };
            entries.push(json!({"path": path, "value": value, "from": from}));
        }
    }
}
