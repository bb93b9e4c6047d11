//! What operations refer to: schemas and responses.

use serde_json::{Map, Value, json};
use tidegate_model::{
    Kind, PluginCatalog,
    schemas::{document, name_of_kind, secret_document, with_meta},
};

use super::{
    convert::{modern, stored},
    fragments::{object, schema},
    resources::{RESOURCES, Resource, SECRET_MANAGERS},
};

pub(super) fn schemas(plugins: &dyn PluginCatalog) -> Value {
    let mut all = Map::new();
    for resource in &RESOURCES {
        let rules = rules_of(resource);
        add_resource(&mut all, resource, &rules);
    }
    let mut by_name = Map::new();
    let (mut of_consumers, mut of_metadata) = (Map::new(), Vec::new());
    let mut names = plugins.enabled();
    names.sort_unstable();
    for facts in names.into_iter().filter_map(|name| plugins.facts(name)) {
        let mut add = |suffix: &str, rules: &Value| {
            let name = format!("plugin.{}{suffix}", facts.name);
            all.insert(name.clone(), modern(&with_meta(rules), "Plugins"));
            schema(&name)
        };
        let own = add("", facts.schema);
        of_consumers.insert(
            facts.name.to_owned(),
            facts.consumer_schema.map_or_else(|| own.clone(), |rules| add(".consumer", rules)),
        );
        by_name.insert(facts.name.to_owned(), own);
        of_metadata.extend(facts.metadata_schema.map(|rules| add(".metadata", rules)));
    }
    all.insert("Plugins".to_owned(), map_of_plugins(by_name));
    all.insert("ConsumerPlugins".to_owned(), map_of_plugins(of_consumers));
    all.insert("Metadata".to_owned(), json!({"type": "object", "anyOf": nonempty(of_metadata)}));
    others(&mut all);
    Value::Object(all)
}

/// Without any schema, everything is allowed.
fn nonempty(schemas: Vec<Value>) -> Vec<Value> {
    if schemas.is_empty() { vec![json!({})] } else { schemas }
}

fn map_of_plugins(properties: Map<String, Value>) -> Value {
    json!({
        "type": "object",
        "description": "Configurations of plugins by name. Only enabled plugins are accepted.",
        "properties": properties,
        "additionalProperties": false,
    })
}

/// The schema that bodies are checked against, in its dialect.
fn rules_of(resource: &Resource) -> Value {
    match resource.kind {
        Kind::Secret => {
            let managers = SECRET_MANAGERS.iter().filter_map(|name| secret_document(name));
            json!({"type": "object", "anyOf": managers.collect::<Vec<_>>()})
        }
        Kind::PluginMetadata => json!({"type": "object"}),
        kind => name_of_kind(kind).and_then(document).cloned().unwrap_or_else(|| json!({"type": "object"})),
    }
}

fn add_resource(all: &mut Map<String, Value>, resource: &Resource, rules: &Value) {
    let name = resource.name;
    let body = match resource.kind {
        Kind::PluginMetadata => schema("Metadata"),
        Kind::Consumer | Kind::Credential => of_consumer(modern(rules, "ConsumerPlugins")),
        _ => modern(rules, "Plugins"),
    };
    all.insert(name.to_owned(), body);
    let mut kept = stored(rules);
    if let Some(fields) = kept.as_object_mut() {
        fields.insert("type".to_owned(), json!("object"));
        fields.insert(
            "description".to_owned(),
            json!("As stored: secrets are encrypted or masked, private keys left out, and an empty object may be an empty list"),
        );
    }
    all.insert(format!("{name}Stored"), kept);
    let value = || schema(&format!("{name}Stored"));
    let (text, index) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let written = object(&[("key", text.clone()), ("value", value())]);
    all.insert(format!("{name}Written"), written);
    let entry = object(&[
        ("key", text),
        ("value", value()),
        ("createdIndex", index.clone()),
        ("modifiedIndex", index.clone()),
    ]);
    all.insert(format!("{name}Entry"), entry);
    let entries = json!({"type": "array", "items": schema(&format!("{name}Entry"))});
    all.insert(format!("{name}List"), object(&[("list", entries), ("total", index)]));
}

/// Credentials bound the number of plugins, so that their schema is not that of other maps of plugins.
fn of_consumer(mut rules: Value) -> Value {
    if let Some(plugins) = rules.pointer_mut("/properties/plugins")
        && plugins.get("maxProperties").is_some()
    {
        *plugins = json!({"$ref": "#/components/schemas/ConsumerPlugins", "maxProperties": 1});
    }
    rules
}

fn others(all: &mut Map<String, Value>) {
    let (text, count) = (json!({"type": "string"}), json!({"type": "integer", "minimum": 0}));
    let fault = json!({"type": "object", "properties": {
        "index": count, "path": text, "error": text,
        "resource_type": text, "resource_id": {"type": ["string", "integer"]},
    }, "required": ["error"]});
    let change = object(&[("resource", text.clone()), ("action", text.clone())]);
    let nullable = json!({"type": ["string", "null"]});
    let who =
        object(&[("name", nullable.clone()), ("role", nullable.clone()), ("address", nullable.clone())]);
    let time = json!({"type": "string", "format": "date-time"});
    let entry = object(&[
        ("revision", count.clone()),
        ("time", time.clone()),
        ("who", schema("Who")),
        ("request", text.clone()),
        ("note", nullable),
        ("total", count.clone()),
    ]);
    let checkpoint = object(&[
        ("name", text.clone()),
        ("revision", count.clone()),
        ("time", time),
        ("who", schema("Who")),
        ("objects", count.clone()),
        ("bytes", count.clone()),
    ]);
    let error = json!({"type": "object", "properties": {
        "error_msg": text,
        "remedy": {"type": "string", "description": "What to do about it"},
        "errors": {"type": "array", "items": schema("Fault"), "maxItems": 100},
        "more": {"type": "integer", "description": "Faults that are not listed"},
        "revision": count,
    }, "required": ["error_msg"]});
    let changes = json!({"type": "array", "items": schema("Change")});
    let changed = json!({"type": "object", "required": ["revision", "changes"], "properties": {
        "revision": count, "changes": changes, "dry_run": {"const": true},
        "warnings": {"type": "array", "items": {}},
    }});
    let deleted = object(&[("deleted", json!({"const": "1"})), ("key", text.clone())]);
    let message = object(&[("message", text)]);
    let workers = json!({"type": "array", "items": count});
    let revision = object(&[("stored", count.clone()), ("compiled", count), ("applied", workers)]);
    let configuration: Map<String, Value> = crate::api::configurations::COLLECTIONS
        .iter()
        .map(|(name, _)| ((*name).to_owned(), json!({"type": "array", "items": {}})))
        .collect();
    let configuration = json!({
        "type": "object", "properties": configuration,
        "description": "One list for each collection, as in apisix.yaml",
    });
    let all_of_these = [
        ("Error", error),
        ("Fault", fault),
        ("Message", message),
        ("Change", change),
        ("Changed", changed),
        ("Who", who),
        ("HistoryEntry", entry),
        ("Checkpoint", checkpoint),
        ("Deleted", deleted),
        ("Revision", revision),
        ("Configuration", configuration),
    ];
    all.extend(all_of_these.map(|(name, schema)| (name.to_owned(), schema)));
}

/// Responses that many operations have.
pub(super) fn responses() -> Value {
    let error = || json!({"schema": schema("Error")});
    let page = || json!({"schema": {"type": "string"}});
    let json_only =
        |description: &str| json!({"description": description, "content": {"application/json": error()}});
    let or = |description: &str, other: &str| json!({"description": description, "content": {"application/json": error(), other: page()}});
    let unauthorized = object(&[
        ("error_msg", json!({"type": "string"})),
        ("description", json!({"type": "string"})),
        ("remedy", json!({"type": "string"})),
    ]);
    let missing = json!({"anyOf": [schema("Error"), schema("Message")]});
    json!({
        "BadRequest": or("The request is refused; nothing was changed", "text/plain"),
        "Unauthorized": {
            "description": "No key, a wrong one, or one of role viewer for a change",
            "content": {"application/json": {"schema": unauthorized}},
        },
        "Forbidden": or("The client's address, the host or the key's role is not allowed here", "text/html"),
        "NotFound": {
            "description": "No such object or path",
            "content": {"application/json": {"schema": missing}, "text/html": page()},
        },
        "Slow": json_only("The body did not arrive in time"),
        "Conflict": json_only("The configuration changed meanwhile, or an object cannot be read; nothing was changed"),
        "Gone": json_only("The history does not go back that far"),
        "Elsewhere": json_only("The configuration is at another revision than If-Match names; nothing was changed"),
        "NotImplemented": json_only("The configuration provider cannot do this"),
        "Failed": or("It failed; the error log says more", "text/plain"),
        "Unavailable": or("The store, or memory for this request, is not available now", "text/plain"),
        "Behind": json_only("The change is stored, but not every worker uses it yet"),
    })
}
