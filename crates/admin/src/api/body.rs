//! Bodies of requests: how large they may be, and what is in them.

use serde_json::Value;

use super::json;
use crate::message::{Request, RequestBody, Response};

/// Bodies above this are refused, except whole configurations.
pub const BODY_LIMIT: u64 = 1_572_864;

pub(super) const CONFIGURATION_LIMIT: u64 = 512 * 1024 * 1024;

pub(crate) const IMPORT_LIMIT: u64 = 128 * 1024 * 1024;

/// The JSON body; `None` when there is none.
pub(crate) fn read_body(request: &Request) -> Result<Option<Value>, Response> {
    let bytes = match &request.body {
        RequestBody::TooLarge(size) => return Err(too_large(*size)),
        RequestBody::Bytes(bytes) if bytes.len() as u64 > BODY_LIMIT => {
            return Err(too_large(bytes.len() as u64));
        }
        RequestBody::Bytes(bytes) => bytes,
    };
    if bytes.is_empty() {
        return Ok(None);
    }
    json::parse(bytes).map(Some).map_err(|error| {
        let message = format!("invalid request body: {error}");
        let body = String::from_utf8_lossy(bytes);
        Response::json(
            400,
            &serde_json::json!({"error_msg": message, "remedy": remedy(&body), "req_body": body}),
        )
    })
}

/// What is most likely wrong with a body that is not JSON.
fn remedy(body: &str) -> &'static str {
    match body.trim_start().chars().next() {
        Some('{' | '[') if !body.contains('"') => {
            "names and texts stand between double quotes; a shell takes them away unless single quotes are around all: \
             -d '{\"uri\": \"/hello\"}'"
        }
        Some('{' | '[') => "correct the place that the message names",
        Some('@') => "a file is sent with -d @FILE outside of quotes",
        _ => "send JSON, such as {\"uri\": \"/hello\"}; PUT /apisix/admin/import takes YAML",
    }
}

pub(crate) fn too_large(size: u64) -> Response {
    let message = format!(
        "invalid request body: request size {size} is greater than the maximum size {BODY_LIMIT} allowed"
    );
    Response::error(400, &message)
}
