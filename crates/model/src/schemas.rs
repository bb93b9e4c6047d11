//! The schemas of the resources, as published by APISIX 3.18 (`crates/model/schemas`), with `proxy_protocol` of upstreams
//! and `max_conn` of their nodes added.

use std::{collections::BTreeMap, sync::LazyLock};

use serde_json::{Map, Value, json};

use crate::{Kind, Schema};

struct Known {
    documents: Map<String, Value>,
    compiled: BTreeMap<String, Schema>,
}

static RESOURCES: LazyLock<Known> = LazyLock::new(|| {
    load(include_str!("../schemas/resources.json"), |name| matches!(name, "ssl" | "plugin_injected_schema"))
});
static SECRETS: LazyLock<Known> = LazyLock::new(|| load(include_str!("../schemas/secrets.json"), |_| true));
static PROTOCOLS: LazyLock<Known> =
    LazyLock::new(|| load(include_str!("../schemas/protocols.json"), |_| true));

/// The schema document by its name in APISIX: `route`, `ssl`, `upstream_hash_vars_schema`...
pub fn document(name: &str) -> Option<&'static Value> {
    RESOURCES.documents.get(name)
}

/// The compiled schema by its name in APISIX.
pub fn named(name: &str) -> Option<&'static Schema> {
    RESOURCES.compiled.get(name)
}

/// The schema of a kind; plugin metadata and secrets have none.
pub fn of_kind(kind: Kind) -> Option<&'static Schema> {
    named(name_of_kind(kind)?)
}

/// The schema of a secret manager: `vault`, `aws`, `gcp`.
pub fn secret(manager: &str) -> Option<&'static Schema> {
    SECRETS.compiled.get(manager)
}

/// The schema document of a secret manager.
pub fn secret_document(manager: &str) -> Option<&'static Value> {
    SECRETS.documents.get(manager)
}

/// The schema of `protocol.conf` of a stream route, by the protocol's name.
pub fn protocol(name: &str) -> Option<&'static Schema> {
    PROTOCOLS.compiled.get(name)
}

/// The name in APISIX of a kind's schema.
pub fn name_of_kind(kind: Kind) -> Option<&'static str> {
    Some(match kind {
        Kind::Proto => "proto",
        Kind::Ssl => "ssl",
        Kind::Upstream => "upstream",
        Kind::Service => "service",
        Kind::PluginConfig => "plugin_config",
        Kind::ConsumerGroup => "consumer_group",
        Kind::Consumer => "consumer",
        Kind::Credential => "credential",
        Kind::GlobalRule => "global_rule",
        Kind::Route => "route",
        Kind::StreamRoute => "stream_route",
        Kind::GraphqlCostDecoration => "graphql_cost_decoration",
        Kind::Secret | Kind::PluginMetadata => return None,
    })
}

/// The fields of a value that objects of the kind do not have.
pub fn unknown_fields(kind: Kind, value: &Value) -> impl Iterator<Item = (&str, &Value)> {
    let schema = name_of_kind(kind).and_then(document);
    let known = schema.and_then(|schema| schema.get("properties")).and_then(Value::as_object);
    let is_unknown = move |name: &str| known.is_some_and(|known| !known.contains_key(name));
    let fields = value.as_object().into_iter().flatten();
    fields.map(|(name, value)| (name.as_str(), value)).filter(move |(name, _)| is_unknown(name))
}

/// A plugin's schema with `_meta` among its properties, which every plugin configuration may have.
pub fn with_meta(schema: &Value) -> Value {
    let mut schema = schema.clone();
    let Some(rules) = schema.as_object_mut() else { return schema };
    let properties = rules.entry("properties").or_insert_with(|| json!({}));
    if !properties.is_object() {
        *properties = json!({});
    }
    let meta = document("plugin_injected_schema").and_then(|injected| injected.get("_meta"));
    if let (Some(properties), Some(meta)) = (properties.as_object_mut(), meta) {
        properties.entry("_meta").or_insert_with(|| meta.clone());
    }
    rules.entry("$comment").or_insert_with(|| json!("this is a mark for our injected plugin schema"));
    schema
}

/// The documents are part of the program, so the test below finds a broken one before users do. `replaced`: whether
/// references to secrets are replaced everywhere in objects of the schema with this name.
fn load(text: &str, replaced: impl Fn(&str) -> bool) -> Known {
    let documents: Map<String, Value> = serde_json::from_str(text).unwrap_or_default();
    let compile = |name: &str, schema: &Value| match replaced(name) {
        true => Schema::compile(schema),
        false => Schema::with_references_in(schema, &REPLACED),
    };
    let compiled =
        documents.iter().filter_map(|(name, schema)| Some((name.clone(), compile(name, schema).ok()?)));
    Known { compiled: compiled.collect(), documents }
}

/// Fields of other objects that may be references to secrets. Plugins have schemas of their own.
pub(crate) const REPLACED: [&str; 2] = ["client_cert", "client_key"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_embedded_schema_compiles() {
        for known in [&RESOURCES, &SECRETS, &PROTOCOLS] {
            assert!(known.documents.len() >= 2);
            assert_eq!(known.compiled.len(), known.documents.len());
        }
        for kind in Kind::ALL {
            assert_eq!(name_of_kind(kind).is_some(), of_kind(kind).is_some(), "{kind:?}");
        }
    }
}
