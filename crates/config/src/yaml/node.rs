//! A document as it was written, with its places.

use serde_json::{Map, Value};

/// A value and the place where it starts, both counted from 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    pub line: usize,
    pub column: usize,
    pub content: Content,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    Scalar {
        value: Value,
        /// What the file says, for keys that take text: `on` stays `on` there.
        text: String,
    },
    List(Vec<Node>),
    Map(Vec<Entry>),
}

#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    pub key: String,
    pub line: usize,
    pub column: usize,
    pub value: Node,
}

/// Something wrong at a place in the text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{line}:{column}: {message}")]
pub struct Fault {
    pub line: usize,
    pub column: usize,
    pub message: String,
}

impl Node {
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

    pub fn get(&self, key: &str) -> Option<&Node> {
        match &self.content {
            Content::Map(entries) => entries.iter().find(|entry| entry.key == key).map(|entry| &entry.value),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(&self.content, Content::Scalar { value: Value::Null, .. })
    }
}
