//! A document as it was written, with its places.

use serde_json::{Map, Value};

/// A value and the place where it starts, both counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// What it is.
    pub content: Content,
}

/// What a node is.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// A text, number, boolean or null.
    Scalar {
        /// As JSON.
        value: Value,
        /// What the file says, for keys that take text: `on` stays `on` there.
        text: String,
    },
    /// Its items, in order.
    List(Vec<Node>),
    /// Its entries, in order; keys are unique.
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Unquoted.
    pub key: String,
    /// Of the key, from 1.
    pub line: usize,
    /// Of the key, from 1, in characters.
    pub column: usize,
    /// May be null.
    pub value: Node,
}

/// Something wrong at a place in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Fault {
    /// From 1.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    /// Without the place.
    pub message: String,
}

impl Node {
    /// Without places, as JSON.
    pub fn into_value(self) -> Value {
        match self.content {
            Content::Scalar { value, .. } => value,
            Content::List(items) => Value::Array(items.into_iter().map(Node::into_value).collect()),
            Content::Map(entries) => {
                let mut map = Map::new();
                for entry in entries {
                    map.insert(entry.key, entry.value.into_value());
                }
                Value::Object(map)
            }
        }
    }

    /// The value of a key; `None` unless this is a map that has it.
    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    /// Whether it is null, or nothing is written.
    pub fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar { value: Value::Null, .. })
    }
}
