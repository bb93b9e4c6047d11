//! Several requests in one: `POST /apisix/batch-requests` sends them through the gateway, one after the other, and
//! answers with all responses.
//!
//! Large batches and answers are read and written on the threads for blocking work, and each request is made when its turn
//! comes: what all of them share may be large.
//!
//! The requests come in over a separate connection ([`tidegate_plugin_api::inner`]), so that routing, plugins and logs
//! treat them like any other of the same client.

mod batch;
mod client;
mod outgoing;

use std::{net::IpAddr, sync::LazyLock, time::Duration};

use serde::Deserialize;
use serde_json::{Value, json};
use tidegate_model::Schema;
use tidegate_plugin_api::{
    Api, BuildContext, Handler, Plugin, PluginDef, Reply, Request, Step, aside,
    body::BodyError,
    document::{Allowance, TooLarge},
    memory,
    step::Verdict,
};

use self::batch::Batch;
use crate::common::json::{self as json_text, Undecoded};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "batch-requests",
    version: 0.1,
    priority: 4010,
    on_by_default: false,
    guards: false,
    scope: Some("global"),
    schema: include_str!("batch_requests.json"),
    metadata_schema: Some(include_str!("batch_requests.metadata.json")),
    build,
    apis: &[Api { methods: &["POST"], uri: "/apisix/batch-requests", handler: Handler::Function(handler) }],
    ..PluginDef::DEFAULT
};

struct BatchRequests;

impl Plugin for BatchRequests {}

fn build(_: &Value, _: &BuildContext) -> Result<std::sync::Arc<dyn Plugin>, String> {
    Ok(std::sync::Arc::new(BatchRequests))
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
            if matches!(reply.body, tidegate_plugin_api::reply::ReplyBody::Bytes(_)) {
                reply.headers.set("Content-Type", "application/json");
            }
            reply
        })
    })
}

fn bad(message: &str) -> Box<Reply> {
    Box::new(Reply::error_msg(400, message))
}

async fn answer(request: &mut Request) -> Verdict {
    let metadata = request.snapshot.metadata.get("batch-requests").cloned();
    let limit = |name: &str, default: u64| {
        metadata.as_ref().and_then(|metadata| metadata.get(name)).and_then(Value::as_u64).unwrap_or(default)
    };
    let body = read_body(request, limit("max_body_size", MAX_BODY_BYTES)).await?;
    let (client, items) = (request.remote_addr, limit("max_pipeline_items", MAX_ITEMS));
    let batch =
        aside::run_by_size(client, body.len() * READ_WEIGHT, move || parsed(&body, client, items)).await;
    let batch = batch.map_err(|_| Box::new(Reply::page(500)))?.map_err(|refused| match refused {
        Refused::Bad(message) => bad(&message),
        Refused::TooLarge(error) => Box::new(Reply::error_msg(error.status(), &error.to_string())),
    })?;
    // Answers are held as bodies are, until all have come.
    let mut lease = memory::Lease::new(request.remote_addr);
    let limit = Duration::from_millis(batch.timeout);
    let texts = client::run(&batch.requests(request), request, limit, &mut lease).await;
    let texts = texts.map_err(|failed| {
        Box::new(match failed {
            client::Failed::Connect(reason) => {
                Reply::error_msg(500, &format!("connect to apisix failed: {reason}"))
            }
            client::Failed::Spent => no_memory(),
        })
    })?;
    let length = texts.iter().map(Vec::len).sum();
    let text = aside::run_by_size(client, length, move || joined(&texts)).await;
    let text = text.map_err(|_| Box::new(Reply::page(500)))?;
    drop(lease);
    let text = memory::hold(text, request.remote_addr).map_err(|_| Box::new(no_memory()))?;
    Err(Box::new(Reply::bytes(200, text)))
}

/// Why a batch is not run.
enum Refused {
    Bad(String),
    TooLarge(TooLarge),
}

/// Reading a batch takes so many times as long as reading a field of a body.
const READ_WEIGHT: usize = 8;

fn parsed(body: &[u8], client: IpAddr, most_items: u64) -> Result<Batch, Refused> {
    let allowance = Allowance::of_a_body(Some(client));
    let mut value = json_text::decode(body, &allowance).map_err(|reason| match reason {
        Undecoded::TooLarge(error) => Refused::TooLarge(error),
        Undecoded::Invalid(reason) => {
            Refused::Bad(format!("invalid request body: {}, err: {reason}", String::from_utf8_lossy(body)))
        }
    })?;
    let schema = SCHEMA.as_ref().map_err(|reason| Refused::Bad(reason.clone()))?;
    schema.check(&mut value).map_err(|reason| Refused::Bad(format!("bad request body: {reason}")))?;
    let mut batch =
        Batch::deserialize(value).map_err(|reason| Refused::Bad(format!("bad request body: {reason}")))?;
    let count = batch.pipeline.len();
    if count as u64 > most_items {
        let reason = format!("too many pipeline requests, {count} exceeds the maximum of {most_items}");
        return Err(Refused::Bad(reason));
    }
    batch.common = outgoing::fields(batch.headers.take());
    batch.held = Some(allowance);
    Ok(batch)
}

fn no_memory() -> Reply {
    Reply::error_msg(503, "the responses of the batch take too much memory")
}

/// A list of JSON.
fn joined(texts: &[Vec<u8>]) -> Vec<u8> {
    let mut text = Vec::with_capacity(texts.iter().map(|text| 1 + text.len()).sum::<usize>() + 2);
    for one in texts {
        text.push(if text.is_empty() { b'[' } else { b',' });
        text.extend_from_slice(one);
    }
    text.extend_from_slice(b"]\n");
    text
}

async fn read_body(request: &mut Request, limit: u64) -> Result<bytes::Bytes, Box<Reply>> {
    let size = |size: u64| {
        let message = format!("request size {size} is greater than the maximum size {limit} allowed");
        Box::new(Reply::error_msg(413, &message))
    };
    if let tidegate_plugin_api::RequestBody::Unread { length: Some(length), .. } = &request.body
        && *length > limit
    {
        return Err(size(*length));
    }
    let body = request.body.collect(usize::try_from(limit).unwrap_or(usize::MAX), request.remote_addr).await;
    match body {
        Ok(body) if body.is_empty() => {
            Err(bad("no request body, you should give at least one pipeline setting"))
        }
        Ok(body) => Ok(body),
        Err(BodyError::TooLarge) => Err(size(limit + 1)),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
