//! Several of Kong's plugins may become one of ours: their configurations are put together.

use serde_json::{Map, Value};

/// Adds a plugin's configuration. Objects merge, lists join, and of two values the later one counts.
pub(super) fn add(plugins: &mut Map<String, Value>, name: &str, conf: Value) {
    match plugins.get_mut(name) {
        None => _ = plugins.insert(name.to_owned(), conf),
        Some(present) => merge(present, conf),
    }
}

fn merge(into: &mut Value, from: Value) {
    match (into, from) {
        (Value::Object(into), Value::Object(from)) => {
            for (key, value) in from {
                match into.get_mut(&key) {
                    Some(present) => merge(present, value),
                    None => _ = into.insert(key, value),
                }
            }
        }
        (Value::Array(into), Value::Array(from)) => into.extend(from),
        (into, from) => *into = from,
    }
}
