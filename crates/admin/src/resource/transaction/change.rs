//! Changes as they were asked for, and what is wrong with them.

use serde_json::{Value, json};

/// One change as it was asked for.
pub(in crate::resource) struct Change {
    pub index: usize,
    pub method: String,
    pub path: String,
    pub value: Option<Value>,
}

/// What is wrong with one change.
pub(in crate::resource) struct Fault {
    pub index: usize,
    pub path: String,
    pub error: String,
}

impl Fault {
    pub(in crate::resource) fn to_json(&self) -> Value {
        let mut fault = json!({"index": self.index, "path": self.path, "error": self.error});
        if let (Some(field), Some(fields)) = (named_field(&self.error), fault.as_object_mut()) {
            fields.insert("field".to_owned(), json!(field));
        }
        fault
    }
}

/// The field that a message of a check is about: `property "uri" ...`.
fn named_field(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("property \"")?;
    rest.split_once('"').map(|(field, _)| field)
}
