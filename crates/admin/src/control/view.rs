//! Objects as the process holds them: defaults filled in, nodes as a list.

use serde_json::{Map, Value, json};
use tidegate_model::{Object, SchemaKind, check::parse_address, mask::mask_resource, schema::lua, schemas};

use super::parts::ControlParts;

pub(super) fn key(parts: &ControlParts, object: &Object) -> String {
    format!("{}/{}/{}", parts.key_prefix, object.kind.directory(), object.id)
}

pub(super) fn object(parts: &ControlParts, object: &Object) -> Value {
    let value = filled(parts, object);
    let nodes = value.pointer("/upstream/nodes").or_else(|| value.get("nodes")).and_then(Value::as_array);
    let has_domain = nodes.is_some_and(|nodes| nodes.iter().any(is_domain));
    json!({
        "key": key(parts, object),
        "value": value,
        "createdIndex": object.created,
        "modifiedIndex": object.modified,
        "orig_modifiedIndex": object.modified,
        "update_count": 0,
        "has_domain": has_domain,
        "clean_handlers": {},
    })
}

/// The value with the defaults of its schema and of its plugins.
pub(super) fn filled(parts: &ControlParts, object: &Object) -> Value {
    let mut value = (*object.value()).clone();
    for tls in ["/tls", "/upstream/tls"] {
        if let Some(Value::Object(tls)) = value.pointer_mut(tls) {
            tls.remove("client_key");
        }
    }
    // Checked when it was stored; what fails now is shown as far as it got.
    let _ = schemas::of_kind(object.kind).map(|schema| schema.check(&mut value));
    for (name, conf) in value.get_mut("plugins").and_then(Value::as_object_mut).into_iter().flatten() {
        let _ = parts.plugins.check(name, SchemaKind::Plugin, conf);
        if let Some(fields) = conf.as_object_mut() {
            fields.entry("_meta").or_insert_with(|| json!({}));
        }
    }
    // No authentication is required here.
    mask_resource(object.kind, &object.id, &mut value, parts.plugins.as_ref());
    if let Some(upstream) = value.get_mut("upstream") {
        list_nodes(upstream);
    }
    list_nodes(&mut value);
    if let Some(fields) = value.as_object_mut() {
        let id = fields.get("id").map_or_else(|| object.id.to_string(), lua::text);
        fields.insert("id".into(), json!(id));
    }
    value
}

fn list_nodes(upstream: &mut Value) {
    let Some(nodes) = upstream.get_mut("nodes") else { return };
    let Value::Object(entries) = nodes else { return };
    let node = |(address, weight): (&String, &Value)| {
        let (host, port) = parse_address(address);
        let mut node = Map::new();
        node.insert("host".into(), json!(host));
        if let Some(port) = port {
            node.insert("port".into(), json!(port));
        }
        node.insert("weight".into(), weight.clone());
        Value::Object(node)
    };
    *nodes = entries.iter().map(node).collect();
}

fn is_domain(node: &Value) -> bool {
    let host = node.get("host").and_then(Value::as_str).unwrap_or_default();
    host.trim_matches(['[', ']']).parse::<std::net::IpAddr>().is_err()
}
