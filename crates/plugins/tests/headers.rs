//! Every place in a plugin's configuration that holds names or values of headers is declared, and so checked.

use serde_json::Value;
use tidegate_plugin_api::PluginDef;

/// Properties about headers that hold no text of one.
const OTHERS: [&str; 3] = [
    "request-validation header_schema",
    "ldap-auth-advanced header_type",
    "http-dubbo serialization_header_key",
];

/// Names of properties whose text ends up in a header.
fn is_about_headers(name: &str) -> bool {
    name.contains("header") || matches!(name, "realm" | "content_type" | "tenant_id")
}

fn walk(schema: &Value, found: &mut Vec<(String, Value)>) {
    match schema {
        Value::Object(members) => {
            for (name, property) in members.get("properties").and_then(Value::as_object).into_iter().flatten()
            {
                found.push((name.clone(), property.clone()));
            }
            members.values().for_each(|member| walk(member, found));
        }
        Value::Array(items) => items.iter().for_each(|item| walk(item, found)),
        _ => {}
    }
}

fn undeclared(
    def: &PluginDef,
    schema: Option<&str>,
    declared: &[(&str, tidegate_model::header_text::Text)],
) -> Vec<String> {
    let schema: Value = serde_json::from_str(schema.unwrap_or("{}")).expect("a schema is JSON");
    let mut properties = Vec::new();
    walk(&schema, &mut properties);
    properties
        .into_iter()
        .filter(|(name, property)| is_about_headers(name) && property["type"] != "boolean")
        .filter(|(name, _)| {
            !declared.iter().any(|(path, _)| {
                path.split('.').any(|step| step.trim_end_matches("[]") == name)
                    // `headers.set` of an edit is below what is declared.
                    || path.rsplit('.').next() == Some(name)
            })
        })
        .map(|(name, _)| format!("{} {name}", def.name))
        .filter(|one| !OTHERS.contains(&one.as_str()))
        .collect()
}

#[test]
fn every_header_in_a_configuration_is_checked() {
    let mut all = Vec::new();
    for def in tidegate_plugins::registry::PLUGINS {
        all.extend(undeclared(def, Some(def.schema), def.headers));
        all.extend(undeclared(def, def.metadata_schema, def.metadata_headers));
    }
    assert!(all.is_empty(), "declare these in PluginDef::headers: {all:?}");
}
