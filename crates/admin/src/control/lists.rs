//! Lists, as long as they may be.

use std::fmt::Write;

use serde_json::Value;

use crate::message::Response;

/// An empty list is an empty object to Lua's encoder, and clients have learnt that. Long lists are never held as values.
pub(super) fn list_response(list: impl Iterator<Item = Value>) -> Response {
    let mut text = String::new();
    for value in list {
        text.push(if text.is_empty() { '[' } else { ',' });
        // Writing to a string cannot fail.
        let _ = write!(text, "{value}");
    }
    text.push_str(if text.is_empty() { "{}\n" } else { "]\n" });
    let response = Response { body: text.into(), ..Response::empty(200) };
    response.with_header("Content-Type", "application/json")
}
