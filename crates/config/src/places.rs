//! Where the user wrote what, for messages about faults that are found later.

use std::collections::HashMap;

use crate::yaml::node::{Content, Fault, Node};

/// Where the user wrote what: `apisix.node_listen[0].port` to line and column of the value.
#[derive(Clone, Debug, Default)]
pub struct Places {
    file: String,
    places: HashMap<String, Position>,
    emptied: bool,
}

#[derive(Clone, Copy, Debug)]
struct Position {
    line: usize,
    column: usize,
    null: bool,
}

impl Places {
    pub(crate) fn of(root: &Node, file: &str) -> Self {
        let mut places = Self { file: file.to_owned(), places: HashMap::new(), emptied: false };
        places.walk(root, "");
        places
    }

    fn walk(&mut self, node: &Node, path: &str) {
        let place = Position { line: node.line, column: node.column, null: node.is_null() };
        self.places.insert(path.to_owned(), place);
        match &node.content {
            Content::Scalar { .. } => {}
            Content::List(items) => {
                for (index, item) in items.iter().enumerate() {
                    self.walk(item, &format!("{path}[{index}]"));
                }
            }
            Content::Map(entries) => {
                for entry in entries {
                    let separator = if path.is_empty() { "" } else { "." };
                    self.walk(&entry.value, &format!("{path}{separator}{}", entry.key));
                }
            }
        }
    }

    /// `conf/config.yaml:3:5: MESSAGE`, for a key that is wrong in a way only others can see.
    pub fn message(&self, key: &str, message: &str) -> String {
        match self.fault(key, message.to_owned()) {
            // The root: the file has nothing of it.
            fault if (fault.line, fault.column) == (1, 1) => format!("{}: {message}", self.file),
            fault => format!("{}:{fault}", self.file),
        }
    }

    /// Whether the file is missing or sets nothing.
    pub fn is_empty(&self) -> bool {
        self.places.keys().all(String::is_empty)
    }

    /// Of a file that is there and holds nothing, or of a link to none. `{}` is something, and never written by accident.
    pub(crate) fn emptied(self, emptied: bool) -> Self {
        Self { emptied, ..self }
    }

    /// Whether there is a file, and nothing in it.
    pub fn is_emptied(&self) -> bool {
        self.emptied
    }

    /// Whether the file has this key.
    pub fn has(&self, path: &str) -> bool {
        self.places.contains_key(path)
    }

    /// Whether the file has this key, and not as null.
    pub fn is_set(&self, path: &str) -> bool {
        self.places.get(path).is_some_and(|place| !place.null)
    }

    /// Whether the file removes this key.
    pub fn is_null(&self, path: &str) -> bool {
        self.places.get(path).is_some_and(|place| place.null)
    }

    /// At the key, or at the nearest table above it that the file has.
    fn fault(&self, path: &str, message: String) -> Fault {
        let mut above = path;
        loop {
            if let Some(place) = self.places.get(above) {
                return Fault { line: place.line, column: place.column, message };
            }
            if above.is_empty() {
                return Fault { line: 1, column: 1, message };
            }
            above = above.rfind(['.', '[']).and_then(|end| above.get(..end)).unwrap_or("");
        }
    }
}
