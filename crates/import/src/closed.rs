//! What cannot be converted stays closed. The answer says nothing but that; file, line and cause stand in the report and in the
//! route's description.

use serde_json::{Value, json};

use crate::output::plain_id;

/// What an answer names, and the report and the route with it.
pub(crate) fn id(name: &str) -> String {
    plain_id(name)
}

pub(crate) fn route(id: &str, why: &str) -> Value {
    json!({
        "desc": why.chars().take(200).collect::<String>(),
        "plugins": plugins(id),
    })
}

pub(crate) fn plugins(id: &str) -> Value {
    let body = format!("closed by import ({id})\n");
    json!({"fault-injection": {"abort": {"http_status": 501, "body": body, "headers": {"Content-Type": "text/plain"}}}})
}
