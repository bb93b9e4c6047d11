//! The body of a request, as the value that its media type says it is.

use std::net::IpAddr;

use serde_json::Value;
use tidegate_plugin_api::{document::Allowance, multipart};
use tidegate_protocol::uri;

use super::{
    json_schema::{At, Check, Failed, Schemas},
    spec::RequestBody,
    values,
};
use crate::common::json;

/// What is known of a body besides its bytes.
pub(super) struct Kind<'r> {
    pub content_type: &'r [u8],
    /// Compressed, or in another charset: it cannot be read.
    pub is_coded: bool,
    pub client: IpAddr,
}

fn invalid(reason: impl Into<String>) -> Failed {
    Failed::Invalid(reason.into())
}

pub(super) fn check(
    said: &RequestBody,
    body: &[u8],
    kind: &Kind,
    check: &Check,
    schemas: &Schemas,
) -> Result<(), Failed> {
    if body.is_empty() {
        return if said.required { Err(invalid("body: it is required")) } else { Ok(()) };
    }
    let content_type = String::from_utf8_lossy(kind.content_type);
    let media_type = content_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let Some(media) = said.media(&media_type) else {
        return Err(invalid(format!("body: the media type {media_type:?} is not in the document")));
    };
    let Some(schema) = media.get("schema") else { return Ok(()) };
    if kind.is_coded {
        return Err(invalid("body: it is compressed, or in another charset than UTF-8"));
    }
    let value = match media_type.as_str() {
        name if values::is_json(name) => of_json(body, kind.client)?,
        "application/x-www-form-urlencoded" => {
            let decode =
                |bytes: &[u8]| String::from_utf8_lossy(&uri::percent_decode(bytes, true)).into_owned();
            let pairs: Vec<(String, String)> = uri::query_pairs(body)
                .map(|(name, value)| (decode(name), decode(value.unwrap_or_default())))
                .collect();
            of_pairs(schemas, schema, &pairs)
        }
        "multipart/form-data" => {
            let mut pairs = Vec::new();
            for field in multipart::fields(body, kind.content_type) {
                let (name, value) = field.map_err(|multipart::Doubtful| {
                    invalid("body: servers read its parts in different ways")
                })?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                pairs.push((text(name), text(value)));
            }
            of_pairs(schemas, schema, &pairs)
        }
        name if name.starts_with("text/") => {
            let text = std::str::from_utf8(body).map_err(|_| invalid("body: it is not UTF-8"))?;
            values::of_text(&values::types(schemas, schema), text)
        }
        // Of images and the like a schema says nothing that could be checked.
        _ => return Ok(()),
    };
    check.check(schema, &value, &At::root("body"))
}

/// Servers differ in which of two members of one name they take.
fn of_json(body: &[u8], client: IpAddr) -> Result<Value, Failed> {
    let value = json::decode(body, &Allowance::of_a_body(Some(client)))
        .map_err(|error| invalid(format!("body: {error}")))?;
    match tidegate_model::json::parse(body) {
        Err(fault @ tidegate_model::json::Fault::Twice { .. }) => Err(invalid(format!("body: {fault}"))),
        _ => Ok(value),
    }
}

fn of_pairs(schemas: &Schemas, schema: &Value, pairs: &[(String, String)]) -> Value {
    values::object(schemas, schema, pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())))
}
