//! Several requests in one: `POST /apisix/batch-requests` sends them through the gateway, one after the other, and
//! answers with all responses.
//!
//! The requests come in over a connection of their own ([`plugin::inner`]), so that routing, plugins and logs treat them
//! like any other of the same client.

mod client;

use std::sync::LazyLock;

use model::Schema;
use plugin::{
    Api, BuildContext, Plugin, PluginDef, Reply, Request, Step, body::BodyError, document::Allowance, hops,
    memory, step::Verdict,
};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use wire::claims::{self, Claim};

use crate::common::{
    batch::Weigh,
    json::{self as json_text, Undecoded},
};

pub static PLUGIN: PluginDef = PluginDef {
    name: "batch-requests",
    version: 0.1,
    priority: 4010,
    guards: false,
    scope: Some("global"),
    schema: include_str!("../schemas/batch-requests.json"),
    metadata_schema: Some(include_str!("../schemas/batch-requests.metadata.json")),
    build,
    apis: &[Api { methods: &["POST"], uri: "/apisix/batch-requests", handler }],
    ..PluginDef::DEFAULT
};

struct BatchRequests;

impl Plugin for BatchRequests {}

fn build(_: &Value, _: &BuildContext) -> Result<std::sync::Arc<dyn Plugin>, String> {
    Ok(std::sync::Arc::new(BatchRequests))
}

#[derive(Deserialize)]
struct Batch {
    query: Option<Map<String, Value>>,
    headers: Option<Map<String, Value>>,
    /// Milliseconds that one step of one request (connect, send, receive) may take.
    timeout: u64,
    pipeline: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    version: f64,
    method: String,
    path: String,
    query: Option<Map<String, Value>>,
    headers: Option<Map<String, Value>>,
    body: Option<String>,
}

static SCHEMA: LazyLock<Result<Schema, String>> = LazyLock::new(|| {
    let methods = ["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "CONNECT", "TRACE", "PURGE"];
    Schema::compile(&json!({
        "type": "object",
        "properties": {
            "query": { "type": "object" },
            "headers": { "type": "object" },
            "timeout": { "type": "integer", "minimum": 1, "default": 30000 },
            "pipeline": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {
                        "version": { "type": "number", "enum": [1.0, 1.1], "default": 1.1 },
                        "method": { "type": "string", "enum": methods, "default": "GET" },
                        "path": { "type": "string", "minLength": 1 },
                        "query": { "type": "object" },
                        "headers": { "type": "object" },
                        "body": { "type": "string" },
                        "ssl_verify": { "type": "boolean", "default": false }
                    },
                    "required": ["path"]
                }
            }
        },
        "anyOf": [{ "required": ["pipeline"] }]
    }))
});

const MAX_BODY_BYTES: u64 = 1024 * 1024;
const MAX_ITEMS: u64 = 1000;

fn handler(request: &mut Request) -> Step<'_> {
    Step::wait(async move {
        // APIs that answer with a table say so.
        answer(request).await.map_err(|mut reply| {
            if matches!(reply.body, plugin::reply::ReplyBody::Bytes(_)) {
                reply.headers.set("Content-Type", "application/json");
            }
            reply
        })
    })
}

fn bad(message: String) -> Box<Reply> {
    Box::new(Reply::error_msg(400, &message))
}

async fn answer(request: &mut Request) -> Verdict {
    let metadata = request.snapshot.metadata.get("batch-requests").cloned();
    let limit = |name: &str, default: u64| {
        metadata.as_ref().and_then(|metadata| metadata.get(name)).and_then(Value::as_u64).unwrap_or(default)
    };
    let body = read_body(request, limit("max_body_size", MAX_BODY_BYTES)).await?;
    let mut value =
        json_text::decode(&body, &Allowance::of_a_body(Some(request.remote_addr))).map_err(|reason| {
            match reason {
                Undecoded::TooLarge(error) => Box::new(Reply::error_msg(error.status(), &error.to_string())),
                Undecoded::Invalid(reason) => {
                    bad(format!("invalid request body: {}, err: {reason}", String::from_utf8_lossy(&body)))
                }
            }
        })?;
    let schema = SCHEMA.as_ref().map_err(|reason| bad(reason.clone()))?;
    schema.check(&mut value).map_err(|reason| bad(format!("bad request body: {reason}")))?;
    let batch = Batch::deserialize(value).map_err(|reason| bad(format!("bad request body: {reason}")))?;
    let items = limit("max_pipeline_items", MAX_ITEMS);
    if batch.pipeline.len() as u64 > items {
        let count = batch.pipeline.len();
        return Err(bad(format!("too many pipeline requests, {count} exceeds the maximum of {items}")));
    }
    let requests: Vec<client::Outgoing> =
        batch.pipeline.iter().map(|item| outgoing(&batch, item, request)).collect();
    // Answers are held as bodies are, until all have come.
    let mut lease = memory::Lease::new(request.remote_addr);
    let responses = client::run(&requests, request, batch.timeout, &mut lease).await.map_err(|failed| {
        Box::new(match failed {
            client::Failed::Connect(reason) => {
                Reply::error_msg(500, &format!("connect to apisix failed: {reason}"))
            }
            client::Failed::Spent => no_memory(),
        })
    })?;
    let text = written(responses);
    drop(lease);
    let text = memory::hold(text, request.remote_addr).map_err(|_| Box::new(no_memory()))?;
    Err(Box::new(Reply::bytes(200, text)))
}

fn no_memory() -> Reply {
    Reply::error_msg(503, "the answers of the batch take too much memory")
}

/// A list of JSON. Each answer goes as it is written.
fn written(responses: Vec<Value>) -> Vec<u8> {
    let mut text =
        Vec::with_capacity(responses.iter().map(|response| 1 + response.encoded()).sum::<usize>() + 2);
    for response in responses {
        text.push(if text.is_empty() { b'[' } else { b',' });
        // Into memory: nothing can fail.
        let _ = serde_json::to_writer(&mut text, &response);
    }
    text.extend_from_slice(b"]\n");
    text
}

async fn read_body(request: &mut Request, limit: u64) -> Result<bytes::Bytes, Box<Reply>> {
    let size = |size: u64| {
        let message = format!("request size {size} is greater than the maximum size {limit} allowed");
        Box::new(Reply::error_msg(413, &message))
    };
    if let plugin::RequestBody::Unread { length: Some(length), .. } = &request.body
        && *length > limit
    {
        return Err(size(*length));
    }
    let body = request.body.collect(usize::try_from(limit).unwrap_or(usize::MAX), request.remote_addr).await;
    match body {
        Ok(body) if body.is_empty() => {
            Err(bad("no request body, you should give at least one pipeline setting".to_owned()))
        }
        Ok(body) => Ok(body),
        Err(BodyError::TooLarge) => Err(size(limit + 1)),
        Err(error) => Err(error.into()),
    }
}

/// What an item sends: its own fields, then the batch's, then those of the outer request that are not about its body.
fn outgoing(batch: &Batch, item: &Item, outer: &Request) -> client::Outgoing {
    let mut headers: Vec<(String, Vec<u8>)> = Vec::new();
    for fields in [&item.headers, &batch.headers] {
        let start = headers.len();
        for (name, value) in fields.iter().flatten() {
            let name = name.to_ascii_lowercase();
            // A proxy in front may be believed; the client is not.
            if matches!(claims::of(name.as_bytes()), Some(Claim::Identity | Claim::Forwarding)) {
                continue;
            }
            if headers.get(..start).is_some_and(|known| known.iter().any(|(other, _)| *other == name)) {
                continue;
            }
            let values = match value {
                Value::Array(values) => values.as_slice(),
                one => std::slice::from_ref(one),
            };
            headers.extend(values.iter().map(|value| (name.clone(), plain_text(value).into_bytes())));
        }
    }
    let start = headers.len();
    for (name, value) in outer.head.headers.iter() {
        let name = String::from_utf8_lossy(name).to_ascii_lowercase();
        let known = headers.get(..start).is_some_and(|known| known.iter().any(|(other, _)| *other == name));
        if !known && !name.starts_with("content-") {
            headers.push((name, value.to_vec()));
        }
    }
    // A batch of batches must end.
    headers.retain(|(name, _)| name != "cdn-loop");
    headers.push(("cdn-loop".to_owned(), hops::next_value(outer)));
    client::Outgoing {
        method: item.method.clone(),
        target: target(&item.path, item.query.as_ref(), batch.query.as_ref()),
        http10: item.version < 1.1,
        headers,
        body: item.body.clone().unwrap_or_default().into_bytes(),
    }
}

fn plain_text(value: &Value) -> String {
    crate::common::header_edits::text(value).unwrap_or_else(|| value.to_string())
}

fn target(path: &str, own: Option<&Map<String, Value>>, common: Option<&Map<String, Value>>) -> Vec<u8> {
    let mut target = Vec::with_capacity(path.len() + 16);
    for &byte in path.as_bytes() {
        // A blank or line break would end the request line.
        if byte <= b' ' || byte == 0x7f {
            target.extend_from_slice(format!("%{byte:02X}").as_bytes());
        } else {
            target.push(byte);
        }
    }
    let has = |name: &str| own.is_some_and(|own| own.contains_key(name));
    let inherited = common.into_iter().flatten().filter(|(name, _)| !has(name));
    let mut separator = if target.contains(&b'?') { b'&' } else { b'?' };
    for (name, value) in own.into_iter().flatten().chain(inherited) {
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values.iter().filter(|value| **value != Value::Bool(false)) {
            target.push(separator);
            separator = b'&';
            wire::uri::encode_component(name.as_bytes(), &mut target);
            if *value != Value::Bool(true) {
                target.push(b'=');
                wire::uri::encode_component(plain_text(value).as_bytes(), &mut target);
            }
        }
    }
    target
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_of_items() {
        let object = |value: Value| value.as_object().cloned();
        let cases = [
            ("/a", json!({}), json!({}), "/a"),
            ("/a", json!({"x": 1}), json!({"x": 2, "y": "b c"}), "/a?x=1&y=b%20c"),
            ("/a?z=1", json!({"x": [1, true]}), json!({}), "/a?z=1&x=1&x"),
            ("/a b\r\n", json!({"x": false}), json!({}), "/a%20b%0D%0A"),
        ];
        for (path, own, common, expected) in cases {
            let (own, common) = (object(own), object(common));
            assert_eq!(target(path, own.as_ref(), common.as_ref()), expected.as_bytes(), "{path}");
        }
    }

    #[test]
    fn the_schema_of_batches() {
        let schema = SCHEMA.as_ref().unwrap();
        let mut good = json!({"pipeline": [{"path": "/b"}]});
        assert_eq!(schema.check(&mut good), Ok(()));
        assert_eq!(good["timeout"], 30000);
        assert!(schema.check(&mut json!({"pipeline": []})).is_err());
        assert!(schema.check(&mut json!({})).is_err());
    }
}
