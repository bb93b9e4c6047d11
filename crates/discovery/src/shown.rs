//! What the Control API shows. It can be read without a password, so it contains none.

use std::sync::Arc;

use serde_json::{Map, Value, json};
use tidegate_model::resources::Node;
use tidegate_model::url::without_user;

use crate::known::Services;

pub(crate) fn services(services: &Services) -> Value {
    Value::Object(services.iter().map(|(name, list)| (name.clone(), nodes(list))).collect())
}

pub(crate) fn nodes(nodes: &Arc<[Node]>) -> Value {
    nodes.iter().map(node).collect()
}

fn node(node: &Node) -> Value {
    let mut shown = Map::new();
    shown.insert("host".to_owned(), json!(node.host));
    if let Some(port) = node.port {
        shown.insert("port".to_owned(), json!(port));
    }
    shown.insert("weight".to_owned(), json!(node.weight));
    if node.priority != 0 {
        shown.insert("priority".to_owned(), json!(node.priority));
    }
    if let Some(metadata) = &node.metadata {
        shown.insert("metadata".to_owned(), metadata.clone());
    }
    Value::Object(shown)
}

/// A configuration with its secrets masked, those in URLs included.
pub(crate) fn configuration(conf: &Value) -> Value {
    match conf {
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| {
                let secret = matches!(name.as_str(), "token" | "access_key" | "secret_key");
                let filled = value.as_str().is_some_and(|text| !text.is_empty());
                (name.clone(), if secret && filled { json!("***") } else { configuration(value) })
            })
            .collect(),
        Value::Array(items) => items.iter().map(configuration).collect(),
        Value::String(text) => Value::String(without_user(text)),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked() {
        let conf = json!({"token": "t", "host": ["http://u:p@127.0.0.1:8848", "http://a"], "secret_key": ""});
        let expected =
            json!({"token": "***", "host": ["http://***@127.0.0.1:8848", "http://a"], "secret_key": ""});
        assert_eq!(configuration(&conf), expected);
    }
}
