//! Writes log entries to Elasticsearch with its bulk API.
//!
//! The server's major version is asked for once per configuration: versions 5 and 6 need a document type.

mod strftime;

use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use tidegate_clients::http::{self, Body, ClientOptions, Endpoint, Outgoing, TlsWanted};
use tidegate_model::header_text::Text;
use tidegate_model::random::random_below;
use tidegate_plugin_api::{BuildContext, Plugin, PluginDef, Request, SchemaKind, Template};
use tidegate_telemetry::clock;
use tidegate_telemetry::error_log::{self, Level};
use tokio::sync::OnceCell;

use crate::common::{
    batch_logger::BatchLogger,
    conf::typed,
    json::of_receiver,
    log_entry::{LogEntry, Made},
};

pub(crate) static PLUGIN: PluginDef = PluginDef {
    name: "elasticsearch-logger",
    version: 0.1,
    priority: 413,
    guards: false,
    schema: include_str!("elasticsearch_logger.json"),
    metadata_schema: Some(include_str!("elasticsearch_logger.metadata.json")),
    encrypt_fields: &["auth.password", "headers"],
    phases: LogEntry::ALL_PHASES,
    check: |_, _: SchemaKind| Ok(()),
    headers: &[("headers", Text::Fields)],
    build,
    ..PluginDef::DEFAULT
};

#[derive(Deserialize)]
struct Conf {
    endpoint_addr: Option<String>,
    endpoint_addrs: Option<Vec<String>>,
    field: Field,
    auth: Option<Auth>,
    headers: Option<Map<String, Value>>,
    /// Seconds.
    timeout: u64,
    ssl_verify: bool,
}

#[derive(Deserialize)]
struct Field {
    index: String,
}

#[derive(Deserialize)]
struct Auth {
    username: String,
    password: String,
}

/// An entry and the index it goes to.
type Document = (String, Map<String, Value>);

struct Receiver {
    addresses: Vec<String>,
    headers: Vec<(String, String)>,
    options: ClientOptions,
    version: OnceCell<String>,
}

fn build(conf: &Value, context: &BuildContext) -> Result<Arc<dyn Plugin>, String> {
    let typed: Conf = typed(conf)?;
    let addresses = match typed.endpoint_addr {
        Some(address) => vec![address],
        None => typed.endpoint_addrs.unwrap_or_default(),
    };
    addresses.iter().try_for_each(|address| Endpoint::parse(address).map(|_| ()))?;
    let mut headers = Vec::new();
    if let Some(Auth { username, password }) = typed.auth {
        let credentials = STANDARD.encode(format!("{username}:{password}"));
        headers.push(("Authorization".to_owned(), format!("Basic {credentials}")));
    }
    for (name, value) in typed.headers.iter().flatten() {
        headers.retain(|(other, _): &(String, String)| !other.eq_ignore_ascii_case(name));
        headers.push((name.clone(), value.as_str().unwrap_or_default().to_owned()));
    }
    let receiver = Arc::new(Receiver {
        addresses,
        headers,
        options: ClientOptions {
            timeout: Duration::from_secs(typed.timeout),
            tls: TlsWanted { verify: typed.ssl_verify, client: None },
            body: Body::SAID,
            ..ClientOptions::default()
        },
        version: OnceCell::new(),
    });
    let index = Index::new(&typed.field.index);
    let make = move |entry: &LogEntry, request: &mut Request| -> Made<Document> {
        let index = index.render(request);
        entry.entry(request).then(|entry| (index, entry))
    };
    BatchLogger::build(PLUGIN.name, conf, context, make, move |documents| {
        let receiver = receiver.clone();
        Box::pin(async move { receiver.send(&documents).await })
    })
}

/// The index's name: `{%Y.%m.%d}` is the time, `$name` a variable.
enum Index {
    Timeless(Template),
    /// Texts and time formats by turns; the first is a text.
    Timed(Vec<String>),
}

impl Index {
    fn new(text: &str) -> Index {
        let mut parts = vec![String::new()];
        let mut rest = text;
        while let Some(open) = rest.find('{') {
            let escaped = rest.get(..open).is_some_and(|before| before.ends_with('$'));
            let close = rest.get(open..).and_then(|tail| tail.find('}')).map(|length| open + length);
            let Some(close) = close else { break };
            let (before, format, after) =
                (&rest[..open], rest.get(open + 1..close).unwrap_or_default(), &rest[close + 1..]);
            let last = parts.last_mut().map_or_else(String::new, std::mem::take);
            parts.pop();
            if escaped {
                parts.push(format!("{last}{before}{{{format}}}"));
            } else {
                parts.push(format!("{last}{before}"));
                parts.push(format.to_owned());
                parts.push(String::new());
            }
            rest = after;
        }
        if let Some(last) = parts.last_mut() {
            last.push_str(rest);
        }
        match parts.as_slice() {
            [only] => Index::Timeless(Template::compile(only)),
            _ => {
                // For what is to be said of their variables: they are compiled once the time is in the text.
                parts.iter().step_by(2).for_each(|part| drop(Template::compile(part)));
                Index::Timed(parts)
            }
        }
    }

    fn render(&self, request: &Request) -> String {
        match self {
            Index::Timeless(template) => template.render_string(request),
            Index::Timed(parts) => {
                let now = clock::unix_ms();
                let text: String = parts
                    .iter()
                    .enumerate()
                    .map(|(at, part)| if at % 2 == 0 { part.clone() } else { strftime::format(part, now) })
                    .collect();
                Template::compile(&text).render_string(request)
            }
        }
    }
}

impl Receiver {
    fn endpoint(&self, path: &str) -> Result<Endpoint, String> {
        let at = random_below(self.addresses.len());
        let address = self.addresses.get(at).ok_or("no endpoint is configured")?;
        Endpoint::parse(&format!("{address}{path}"))
    }

    fn with_headers(&self, mut outgoing: Outgoing) -> Outgoing {
        for (name, value) in &self.headers {
            outgoing.headers.retain(|(other, _)| !other.eq_ignore_ascii_case(name));
            outgoing = outgoing.header(name, value.as_bytes());
        }
        outgoing
    }

    async fn ask_version(&self) -> Result<String, String> {
        let outgoing = self.with_headers(Outgoing::get(self.endpoint("")?));
        let answer = http::send(outgoing, &self.options).await?;
        if answer.status != 200 {
            let body = String::from_utf8_lossy(&answer.body);
            return Err(format!("server returned status: {}, body: {body}", answer.status));
        }
        let document =
            of_receiver(&answer.body).map_err(|error| format!("failed to decode response body: {error}"))?;
        let number = document
            .pointer("/version/number")
            .and_then(Value::as_str)
            .ok_or("failed to get version from response body")?;
        match number.split_once('.') {
            Some((major, _)) if !major.is_empty() && major.bytes().all(|byte| byte.is_ascii_digit()) => {
                Ok(major.to_owned())
            }
            _ => Err(format!("invalid version format: {number}")),
        }
    }

    async fn send(&self, documents: &[Document]) -> Result<(), String> {
        let version = self.version.get_or_try_init(|| self.ask_version()).await.map_or_else(
            |reason| {
                let message = format_args!("failed to get Elasticsearch version: {reason}");
                error_log::log(Level::Error, message);
                ""
            },
            String::as_str,
        );
        let body = bulk(documents, matches!(version, "5" | "6"));
        let outgoing = Outgoing::post(self.endpoint("/_bulk")?, "application/x-ndjson", body)
            .header("Accept", "application/vnd.elasticsearch+json");
        let answer = http::send(self.with_headers(outgoing), &self.options).await?;
        if answer.status == 200 {
            return Ok(());
        }
        let body = String::from_utf8_lossy(&answer.body);
        Err(format!("elasticsearch server returned status: {}, body: {body}", answer.status))
    }
}

/// An action line and a document line each.
fn bulk(documents: &[Document], typed: bool) -> String {
    let mut body = String::new();
    for (index, entry) in documents {
        let action = match typed {
            true => json!({ "index": { "_index": index, "_type": "_doc" } }),
            false => json!({ "index": { "_index": index } }),
        };
        body.push_str(&format!("{action}\n{}\n", Value::from(entry.clone())));
    }
    body
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::common::test_request::request;

    #[test]
    fn names_of_indices() {
        let request = request("GET / HTTP/1.1\r\nHost: h\r\n\r\n");
        let year = clock::utc(clock::unix_ms(), "%Y");
        let cases = [
            ("services", "services".to_owned()),
            ("a-{%Y}", format!("a-{year}")),
            ("{%Y}-b-{%Y}-$host", format!("{year}-b-{year}-h")),
            ("${host}-x", "h-x".to_owned()),
            ("open{", "open{".to_owned()),
        ];
        for (text, expected) in cases {
            assert_eq!(Index::new(text).render(&request), expected, "{text}");
        }
    }

    #[test]
    fn lines_of_a_bulk_request() {
        let documents = [("i".to_owned(), Map::from_iter([("a".to_owned(), json!(1))]))];
        assert_eq!(bulk(&documents, false), "{\"index\":{\"_index\":\"i\"}}\n{\"a\":1}\n");
        assert_eq!(bulk(&documents, true), "{\"index\":{\"_index\":\"i\",\"_type\":\"_doc\"}}\n{\"a\":1}\n");
    }
}
